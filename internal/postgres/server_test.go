package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// down counts how often the breaker opened and closed.
type down struct{ opened, closed atomic.Int32 }

func (d *down) notify(err error) {
	if err != nil {
		d.opened.Add(1)
	} else {
		d.closed.Add(1)
	}
}

func TestServerDown(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 17}), true)
	var seen down
	b.admin.Notify(seen.notify)
	w := b.wish("survivor")
	b.provision(t, w)

	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.trips.take()
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			_, err := b.admin.Provision(context.WithoutCancel(t.Context()), w)
			if postgres.KindOf(err) != postgres.KindUnavailable {
				t.Errorf("error %v, want kind Unavailable", err)
			}
		})
	}
	all.Wait()
	_, err := b.admin.Provision(t.Context(), w)
	if got, want := wantKind(t, err, postgres.KindUnavailable), "The PostgreSQL server can't be reached."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	// What comes to the server's port while callers go on calling.
	attempts, free := countConnections(t, fmt.Sprintf("%s:%d", b.Host(), b.Port()))
	start := time.Now()
	for time.Since(start) < 4*time.Second {
		_, err := b.admin.Provision(t.Context(), w)
		wantKind(t, err, postgres.KindUnavailable)
		time.Sleep(5 * time.Millisecond)
	}
	free()
	if n, limit := int(attempts.Load()), int(time.Since(start)/time.Second)+4; n == 0 || n > limit {
		t.Errorf("%d attempts to connect in %s, want 1 to %d", n, time.Since(start), limit)
	}

	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the breaker closes", func() bool { return seen.closed.Load() == 1 })
	b.mustLogIn(t, w)
	b.drop(t, w)
	if seen.opened.Load() != 1 {
		t.Errorf("the breaker opened %d times, want once", seen.opened.Load())
	}
}

// countConnections listens where the server did, and closes what comes.
func countConnections(t *testing.T, address string) (n *atomic.Int32, free func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	n = &atomic.Int32{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			_ = conn.Close()
		}
	}()
	return n, func() { _ = listener.Close() }
}

func TestServerRestartsUnnoticed(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 15}), false)
	var seen down
	b.admin.Notify(seen.notify)
	w := b.wish("calm")
	b.provision(t, w)
	w.SetPassword = false
	var all sync.WaitGroup
	for range 40 { // so that every connection of the pool is open, and dies
		all.Go(func() { _, _ = b.admin.Provision(context.WithoutCancel(t.Context()), w) })
	}
	all.Wait()
	if err := errors.Join(b.Kill(), b.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.provision(t, w)
	if seen.opened.Load() != 0 {
		t.Error("dead pooled connections opened the breaker")
	}
}

func TestAdminPasswordRotated(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 18, Settings: map[string]string{"log_connections": "on"}}), true)
	w := b.wish("rotated")
	b.provision(t, w)

	// The file first: old connections are retired and nothing fails.
	b.exec(t, "CREATE ROLE second_admin SUPERUSER LOGIN PASSWORD 'second-password'")
	b.writeDSN(t, b.DSN("second_admin", "second-password", "postgres"))
	w.SetPassword = false
	eventually(t, "the old admin's connections are retired", func() bool {
		b.provision(t, w)
		rows := b.query(t, "SELECT usename FROM pg_stat_activity WHERE application_name = 'databases-controller'")
		return len(rows) > 0 && rows[0][0] == "second_admin" && rows[len(rows)-1][0] == "second_admin"
	})

	// The server first: no hammering with the old password, and on as soon as the file changes.
	b.exec(t, "ALTER ROLE second_admin PASSWORD 'third-password'",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'second_admin'")
	_, err := b.admin.Provision(t.Context(), w)
	message := wantKind(t, err, postgres.KindUnavailable)
	if want := "The PostgreSQL server refuses the admin's login: check the file that POSTGRES_ADMIN_DSN_FILE names."; message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	if strings.Contains(err.Error(), "second-password") {
		t.Errorf("the error shows the password: %v", err)
	}
	before := failures(t, b)
	for range 100 {
		_, _ = b.admin.Provision(t.Context(), w)
		time.Sleep(20 * time.Millisecond)
	}
	if attempts := failures(t, b) - before; attempts > 6 {
		t.Errorf("%d logins with the old password during two seconds", attempts)
	}
	b.writeDSN(t, b.DSN("second_admin", "third-password", "postgres"))
	eventually(t, "the new password is used", func() bool {
		_, err := b.admin.Provision(t.Context(), w)
		return err == nil
	})

	// A file that can't be used changes nothing, and is told.
	var told atomic.Int32
	b.admin.NotifyDSN(func(err error) {
		if err != nil {
			told.Add(1)
		} else {
			told.Add(100)
		}
	})
	b.writeDSN(t, "nonsense")
	eventually(t, "the bad file is noticed", func() bool { b.provision(t, w); return b.admin.DSNError() != nil && told.Load() == 1 })
	b.writeDSN(t, b.DSN("second_admin", "third-password", "postgres"))
	eventually(t, "the good file is noticed", func() bool { b.provision(t, w); return b.admin.DSNError() == nil && told.Load() == 101 })
}

func failures(t *testing.T, b *bench) int {
	t.Helper()
	log, err := b.Log()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(log, "password authentication failed")
}

// TestNoConnectionLeft: the tenants take every connection but those that the admin holds.
func TestNoConnectionLeft(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 16, Settings: map[string]string{"max_connections": "10"}}), true)
	var seen down
	b.admin.Notify(seen.notify)
	w := b.wish("greedy")
	b.provision(t, w)
	for {
		if _, err := b.connect(t, w.Name, w.Password, w.Name); err != nil {
			if code(err) != "53300" {
				t.Fatal(err)
			}
			break
		}
	}
	w.SetPassword = false
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := b.admin.Provision(context.WithoutCancel(t.Context()), w); err != nil {
				t.Errorf("Provision: %v", err)
			}
		})
	}
	all.Wait()
	if seen.opened.Load() > 0 {
		t.Errorf("the breaker opened %d times", seen.opened.Load())
	}
}

// TestDSNReplacedUnderLoad: calls that wait for a connection of the old DSN get one of the new.
func TestDSNReplacedUnderLoad(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 17}), false)
	var seen down
	b.admin.Notify(seen.notify)
	w := b.wish("busy")
	b.provision(t, w)
	w.SetPassword = false
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.admin.Provision(context.WithoutCancel(ctx), w); err != nil {
					t.Errorf("Provision: %v", err)
					return
				}
			}
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		b.writeDSN(t, b.SuperuserDSN()+fmt.Sprintf("&application_name=admin-%d", i))
		time.Sleep(300 * time.Millisecond)
	}
	all.Wait()
	if seen.opened.Load() > 0 {
		t.Errorf("the breaker opened %d times", seen.opened.Load())
	}
}

// TestPasswordCheck needs a contrib module, which the installed PostgreSQL has.
func TestPasswordCheck(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Installed: true, Settings: map[string]string{"shared_preload_libraries": "passwordcheck"}}), true)
	w := b.wish("checked-password")
	b.provision(t, w)
	good := w
	w.Password = w.Name // all that the module can find out of a verifier
	_, err := b.admin.Provision(t.Context(), w)
	if message := wantKind(t, err, postgres.KindPasswordRejected); strings.Contains(err.Error(), "SCRAM-SHA-256$") || message == "" {
		t.Errorf("the error shows the verifier: %v", err)
	}
	b.mustLogIn(t, good)
	b.drop(t, good)
}

// TestConnections: the number of admin connections doesn't grow with the number of databases.
func TestConnections(t *testing.T) {
	b := newBench(t, postgrestest.Start(t, postgrestest.Options{Major: 16, Settings: map[string]string{"log_connections": "on"}}), true)
	var all sync.WaitGroup
	for i := range 100 {
		w := b.wish("connected_" + string(rune('a'+i%4)))
		w.SetPassword = false
		all.Go(func() {
			if _, err := b.admin.Provision(context.WithoutCancel(t.Context()), w); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	log, err := b.Log()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log, "connection authorized: user=weak_admin"); n == 0 || n > postgres.MaxConnections {
		t.Errorf("%d admin connections were opened, want 1 to %d", n, postgres.MaxConnections)
	}
}

func BenchmarkProvisionNothingToDo(b *testing.B) {
	server, err := postgrestest.Launch(context.Background(), postgrestest.Options{Major: 17})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	dsn := b.TempDir() + "/dsn"
	if err := writeFile(dsn, server.SuperuserDSN()); err != nil {
		b.Fatal(err)
	}
	admin, err := postgres.NewServer(dsn, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer admin.Close()
	w := postgres.Wish{Name: "bench", Claim: claimOf("ns", "bench"), ConnectionLimit: -1, Password: "p", SetPassword: true}
	if _, err := admin.Provision(context.Background(), w); err != nil {
		b.Fatal(err)
	}
	w.SetPassword = false
	b.ReportAllocs()
	for b.Loop() {
		if _, err := admin.Provision(context.Background(), w); err != nil {
			b.Fatal(err)
		}
	}
}
