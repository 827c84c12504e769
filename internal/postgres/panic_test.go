package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestPanic: a panic within a round trip keeps no lock and no connection, and no connection in another role's name. There
// are more panics than connections.
func TestPanic(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 17}), true)
	panicAfter := ""
	admin, err := postgres.NewServer(b.dsnFile, func(ctx context.Context, operation string, call func(context.Context) error) error {
		err := call(ctx)
		if panicAfter != "" && strings.Contains(operation, panicAfter) {
			panic("after " + operation)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := b.wish("panicked")
	panics := func(operation string, call func() error) {
		t.Helper()
		panicAfter = operation
		defer func() {
			if panicAfter = ""; recover() == nil {
				t.Errorf("no panic after %s", operation)
			}
		}()
		_ = call()
	}
	provision := func() error { _, err := admin.Provision(ctx, w); return err }
	drop := func() error { return admin.Drop(ctx, w.Name, w.Claim) }
	for range postgres.MaxConnections + 1 {
		panics("SELECT pg_roles", provision)
	}
	panics("COMMENT ROLE", provision)
	for range postgres.MaxConnections + 1 {
		if err := provision(); err != nil {
			t.Fatal(err)
		}
		panics("SET ROLE", drop) // the connection is the role's now
	}
	if err := provision(); err != nil {
		t.Fatal(err)
	}
	w.SetPassword = true
	if err := provision(); err != nil {
		t.Fatal(err)
	}
	b.mustLogIn(t, w)
	if err := drop(); err != nil {
		t.Fatal(err)
	}
}
