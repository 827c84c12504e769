package postgres_test

import (
	"testing"

	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestAllocations guards the cost of a Provision that finds nothing to do, which is what nearly every reconcile is.
func TestAllocations(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 17}), false)
	w := b.wish("allocations")
	b.provision(t, w)
	w.SetPassword = false
	allocations := testing.AllocsPerRun(200, func() { b.provision(t, w) })
	if limit := 60.0; allocations > limit {
		t.Errorf("%v allocations, want at most %v", allocations, limit)
	}
}
