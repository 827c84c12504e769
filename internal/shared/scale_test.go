package shared_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestMany: 500 Databases are created, left alone through several resyncs, and met by a restarted controller. The
// idle time is shortened to a few resyncs of 10 seconds: each does what a resync of ten minutes does.
func TestMany(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 18, Settings: map[string]string{"log_connections": "on", "log_statement": "ddl"}})
	dsn, err := server.WeakAdmin(t.Context(), "weak_admin")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOn(t, server, dsn)
	w.options.Settings.Resync = 10 * time.Second
	w.start()
	const n = 500
	name := func(i int) string { return fmt.Sprintf("db-%d", i) }
	for i := range n {
		w.create(name(i))
	}
	for i := range n {
		w.ready(name(i))
	}
	connections := func() int { return w.logged("connection authorized: user=weak_admin") }
	if got := connections(); got > postgres.MaxConnections {
		t.Errorf("%d connections for %d Databases, want at most %d", got, n, postgres.MaxConnections)
	}

	w.requests.take()
	w.trips.take()
	ddl := w.logged("statement: ")
	time.Sleep(25 * time.Second)
	reads, writes := w.requests.take()
	if len(writes) > 0 || len(reads) > 0 {
		t.Errorf("idle: API reads %d, writes %q", len(reads), writes)
	}
	trips := w.trips.take()
	if len(trips) < n {
		t.Errorf("idle: only %d looks at %d Databases", len(trips), n)
	}
	w.onlySelects(trips)

	w.stop()
	before := connections()
	w.start()
	w.eventually("every Database was looked at", func() bool { return w.trips.count() >= n })
	reads, writes = w.requests.take()
	reads = slices.DeleteFunc(reads, func(r string) bool { return !strings.Contains(r, w.namespace) }) // discovery, the cluster's uid
	if len(writes) > 0 || len(reads) > 0 {
		t.Errorf("restart: API reads %q, writes %q", reads, writes)
	}
	w.onlySelects(w.trips.take())
	if got := connections() - before; got > postgres.MaxConnections {
		t.Errorf("restart: %d connections", got)
	}
	if got := w.logged("statement: "); got != ddl {
		t.Errorf("PostgreSQL logged %d more statements that change something", got-ddl)
	}
}

func (w *world) logged(what string) int {
	w.Helper()
	log, err := w.server.Log()
	if err != nil {
		w.Fatal(err)
	}
	return strings.Count(log, what)
}

func (w *world) onlySelects(trips []string) {
	w.Helper()
	for _, trip := range trips {
		if trip != "SELECT pg_roles pg_database" {
			w.Errorf("a round trip that isn't the one SELECT: %s", trip)
		}
	}
}

func (r *trips) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// TestMemory: 2,000 reconciles leave heap and goroutines where they were, and the cluster's other Secrets don't count.
func TestMemory(t *testing.T) {
	w := newWorld(t)
	w.start()
	const n = 20
	for i := range n {
		w.create(fmt.Sprintf("db-%d", i))
	}
	for i := range n {
		w.ready(fmt.Sprintf("db-%d", i))
	}
	round := func(value string) {
		before := w.trips.total()
		for i := range n {
			w.touch(fmt.Sprintf("db-%d", i), value)
		}
		w.eventually("a round of reconciles", func() bool { return w.trips.total() >= before+n })
	}
	for i := range 10 {
		round(fmt.Sprintf("warm-up-%d", i))
	}
	heap, goroutines := footprint()
	mallocs := allocations()
	for i := range 100 {
		round(fmt.Sprint(i))
	}
	// Everything that the process does is in it, the test's own patches and polls too.
	if each := (allocations() - mallocs) / (100 * n); each > 1500 {
		t.Errorf("%d allocations a reconcile with nothing to do, want at most 1500", each)
	} else {
		t.Logf("%d allocations a reconcile, with those of the test", each)
	}
	const secrets, size = 60, 500_000
	for i := range secrets {
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("other-%d", i)},
			Data: map[string][]byte{"data": make([]byte, size)}}
		if err := w.Client.Create(w.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	heapAfter, goroutinesAfter := footprint()
	t.Logf("heap %d to %d KiB, goroutines %d to %d", heap>>10, heapAfter>>10, goroutines, goroutinesAfter)
	if heapAfter > heap+8<<20 { // the other Secrets have 30 MB
		t.Errorf("the heap grew from %d to %d KiB", heap>>10, heapAfter>>10)
	}
	if goroutinesAfter > goroutines+20 {
		t.Errorf("goroutines grew from %d to %d", goroutines, goroutinesAfter)
	}
}

func allocations() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

func footprint() (heap uint64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc, runtime.NumGoroutine()
}
