package main

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/example/databases/internal/postgres/postgrestest"
)

func TestProxyCountsWhatAClientSends(t *testing.T) {
	ctx := t.Context()
	server := postgrestest.Start(t, postgrestest.Options{Major: 15})
	p, err := newProxy(ctx, fmt.Sprintf("%s:%d", server.Host(), server.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	config, err := pgx.ParseConfig(server.SuperuserDSN())
	if err != nil {
		t.Fatal(err)
	}
	config.Port = uint16(p.listener.Addr().(*net.TCPAddr).Port)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	useConnection(ctx, t, conn)
	if err := conn.Close(ctx); err != nil {
		t.Fatal(err)
	}
	// The client has the last answer a moment before it is counted.
	got := p.snapshot()
	for deadline := time.Now().Add(10 * time.Second); got.RoundTrips < 5 && time.Now().Before(deadline); got = p.snapshot() {
		time.Sleep(time.Millisecond)
	}
	want := traffic{
		Statements: 6, RoundTrips: 5, Connections: 1, Peak: 1, // preparing is a round trip without a statement
		Kinds: map[string]int{"SELECT": 3, "BEGIN": 1, "CREATE ROLE": 1, "COMMIT": 1},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(traffic{}, "Waited")); diff != "" {
		t.Errorf("traffic (-want +got):\n%s", diff)
	}
	if got.Waited <= 0 || got.Waited > time.Minute {
		t.Errorf("round trips took %s", got.Waited)
	}
	if n, last := p.bound("name-"); n != 2 || last.IsZero() {
		t.Errorf("%d names were bound, the last at %s; want 2", n, last)
	}
}

// useConnection sends one simple query, one batch of three statements, and a prepared statement twice.
func useConnection(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.PgConn().Exec(ctx, "SELECT 1").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := sendBatch(ctx, conn, []string{"BEGIN", "CREATE ROLE a", "COMMIT"}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Prepare(ctx, "look", "SELECT $1::text"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"name-1", "name-2"} {
		if _, err := conn.Exec(ctx, "look", name); err != nil {
			t.Fatal(err)
		}
	}
}
