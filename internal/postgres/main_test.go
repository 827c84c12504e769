package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// bench is one server with one admin on it, and what the admin has been seen to do.
type bench struct {
	*postgrestest.Server
	admin   *postgres.Server
	weak    bool
	dsnFile string
	trips   *recorder

	mu        sync.Mutex
	passwords []string // all that were ever used, for the leak test
}

// recorder is an Interceptor that notes each round trip.
type recorder struct {
	mu    sync.Mutex
	trips []string
	// before, where set, runs before each call and may refuse it.
	before func(operation string) error
	// after, where set, runs after each call.
	after func(operation string)
}

func (r *recorder) intercept(ctx context.Context, operation string, call func(context.Context) error) error {
	r.mu.Lock()
	r.trips = append(r.trips, operation)
	before, after := r.before, r.after
	r.mu.Unlock()
	if after != nil {
		defer after(operation)
	}
	if before != nil {
		if err := before(operation); err != nil {
			return err
		}
	}
	return call(ctx)
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	trips := r.trips
	r.trips = nil
	return trips
}

func newBench(t *testing.T, server *postgrestest.Server, weak bool) *bench {
	t.Helper()
	b := &bench{Server: server, weak: weak, trips: &recorder{}, dsnFile: filepath.Join(t.TempDir(), "dsn")}
	dsn := server.SuperuserDSN()
	if weak {
		var err error
		if dsn, err = server.WeakAdmin(t.Context(), "weak_admin"); err != nil {
			t.Fatal(err)
		}
	}
	b.writeDSN(t, dsn)
	var err error
	if b.admin, err = postgres.NewServer(b.dsnFile, b.trips.intercept); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.admin.Close)
	return b
}

func (b *bench) writeDSN(t *testing.T, dsn string) {
	t.Helper()
	if err := writeFile(b.dsnFile, dsn); err != nil {
		t.Fatal(err)
	}
}

// writeFile replaces a file at once, as a mounted Secret is.
func writeFile(file, content string) error {
	replacement := file + ".new"
	if err := os.WriteFile(replacement, []byte(content+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(replacement, file)
}

// wish is a wish for a name, with a new password and a resource of its own.
func (b *bench) wish(name string) postgres.Wish {
	w := postgres.Wish{
		Name: name, Claim: claimOf("ns", strings.ToLower(strings.ReplaceAll(name, "_", "-"))),
		ConnectionLimit: postgres.NoConnectionLimit, Password: rand.Text(), SetPassword: true,
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passwords = append(b.passwords, w.Password)
	return w
}

func claimOf(namespace, name string) postgres.Claim {
	return postgres.Claim{Cluster: "c1", Group: "postgres.example.com", Namespace: namespace, Name: name, UID: "uid-" + name}
}

func (b *bench) provision(t *testing.T, w postgres.Wish) postgres.Outcome {
	t.Helper()
	outcome, err := b.admin.Provision(t.Context(), w)
	if err != nil {
		t.Fatalf("Provision(%s): %v", w.Name, err)
	}
	return outcome
}

func (b *bench) drop(t *testing.T, w postgres.Wish) {
	t.Helper()
	if err := b.admin.Drop(t.Context(), w.Name, w.Claim); err != nil {
		t.Fatalf("Drop(%s): %v", w.Name, err)
	}
	if rows := b.query(t, fmt.Sprintf("SELECT rolname FROM pg_roles WHERE rolname = '%[1]s' UNION ALL SELECT datname FROM pg_database WHERE datname = '%[1]s'", w.Name)); len(rows) > 0 {
		t.Fatalf("after Drop(%s) there is still %v", w.Name, rows)
	}
}

func (b *bench) exec(t *testing.T, statements ...string) {
	t.Helper()
	if err := b.Exec(t.Context(), statements...); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) query(t *testing.T, sql string) [][]string {
	t.Helper()
	rows, err := b.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// connect logs in as a role; the connection is closed at the end of the test.
func (b *bench) connect(t *testing.T, user, password, database string) (*pgx.Conn, error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.DSN(user, password, database))
	if err == nil {
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	}
	return conn, err
}

// as runs statements as a role in a database.
func (b *bench) as(t *testing.T, user, password, database string, statements ...string) error {
	t.Helper()
	conn, err := b.connect(t, user, password, database)
	if err != nil {
		return err
	}
	defer conn.Close(t.Context())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// mustLogIn checks that exactly this password lets the role in.
func (b *bench) mustLogIn(t *testing.T, w postgres.Wish) {
	t.Helper()
	if err := b.as(t, w.Name, w.Password, w.Name); err != nil {
		t.Errorf("the password doesn't log in: %v", err)
	}
	if got := code(b.as(t, w.Name, "not the password", w.Name)); got != "28P01" {
		t.Errorf("a wrong password: SQLSTATE %q, want 28P01", got)
	}
}

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// wantKind fails unless err is of the kind, and returns its message.
func wantKind(t *testing.T, err error, kind postgres.Kind) string {
	t.Helper()
	var e *postgres.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("error %v (kind %s), want kind %s", err, postgres.KindOf(err), kind)
	}
	if strings.ContainsAny(e.Message, "\n\r") {
		t.Errorf("message of several lines: %q", e.Message)
	}
	return e.Message
}

// eventually polls until ok, for a generous time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
