package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/example/databases/internal/postgres"
)

func dropWithSessions(t *testing.T, b *bench) {
	w := b.wish("reconnecting")
	b.provision(t, w)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if conn, err := pgx.Connect(ctx, b.DSN(w.Name, w.Password, w.Name)); err == nil {
				_, _ = conn.Exec(ctx, "SELECT pg_sleep(60)")
				_ = conn.Close(context.WithoutCancel(ctx))
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	eventually(t, "the client is connected", func() bool {
		return len(b.query(t, "SELECT 1 FROM pg_stat_activity WHERE datname = 'reconnecting' AND state = 'active'")) == 1
	})
	b.drop(t, w)
	stop()
	<-ended
}

func dropBlocked(t *testing.T, b *bench) {
	w := b.wish("held")
	b.provision(t, w)
	if err := b.as(t, w.Name, w.Password, w.Name, "BEGIN", "CREATE TABLE t (i int)", "PREPARE TRANSACTION 'unfinished'"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		message := wantKind(t, b.admin.Drop(t.Context(), w.Name, w.Claim), postgres.KindDropBlocked)
		if !strings.Contains(message, "prepared transaction 'unfinished' (user held)") {
			t.Errorf("message %q doesn't name the prepared transaction", message)
		}
	}
	if got := code(b.as(t, w.Name, w.Password, w.Name)); got == "" {
		t.Error("the tenant can still log in to a database that is being dropped")
	}
	if rows := b.query(t, "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'held'"); rows[0][0] != "f" {
		t.Error("the role may still log in, to other databases")
	}
	// The resource may be made anew meanwhile: the same name takes it back.
	w.SetPassword = false
	b.provision(t, w)
	b.mustLogIn(t, w)
	if err := b.as(t, w.Name, w.Password, w.Name, "ROLLBACK PREPARED 'unfinished'"); err != nil {
		t.Fatal(err)
	}
	if b.weak { // a superuser ends every session
		holder, err := pgx.Connect(t.Context(), strings.Replace(b.SuperuserDSN(), "/postgres?", "/held?application_name=psql%20of%20a%20DBA&", 1))
		if err != nil {
			t.Fatal(err)
		}
		message := wantKind(t, b.admin.Drop(t.Context(), w.Name, w.Claim), postgres.KindDropBlocked)
		want := fmt.Sprintf("session %d (user postgres, application 'psql of a DBA')", holder.PgConn().PID())
		if !strings.Contains(message, want) {
			t.Errorf("message %q doesn't have %q", message, want)
		}
		_ = holder.Close(t.Context())
		for len(b.query(t, "SELECT 1 FROM pg_stat_activity WHERE datname = 'held'")) > 0 { // it ends a moment after its client
			time.Sleep(10 * time.Millisecond)
		}
	}
	b.drop(t, w)
}

func dependents(t *testing.T, b *bench) {
	w := b.wish("depended_on")
	b.provision(t, w)
	b.exec(t, "CREATE TABLE IF NOT EXISTS elsewhere (i int)", "GRANT SELECT ON elsewhere TO depended_on")
	for range 2 {
		message := wantKind(t, b.admin.Drop(t.Context(), w.Name, w.Claim), postgres.KindRoleHasDependents)
		if !strings.Contains(message, "in: postgres.") {
			t.Errorf("message %q doesn't name the database postgres", message)
		}
	}
	if rows := b.query(t, "SELECT 1 FROM pg_database WHERE datname = 'depended_on'"); len(rows) > 0 {
		t.Error("the database should be gone")
	}
	b.exec(t, "REVOKE ALL ON elsewhere FROM depended_on")
	b.drop(t, w)
}

func tenantObjects(t *testing.T, b *bench) {
	w := b.wish("busy_tenant")
	b.provision(t, w)
	err := b.as(t, w.Name, w.Password, w.Name,
		"CREATE SCHEMA own", "CREATE TABLE own.t (i int PRIMARY KEY)", "INSERT INTO own.t SELECT generate_series(1, 1000)",
		"CREATE PUBLICATION p FOR TABLE own.t", "GRANT SELECT ON own.t TO PUBLIC",
		"ALTER DEFAULT PRIVILEGES IN SCHEMA own GRANT SELECT ON TABLES TO PUBLIC",
		"CREATE FUNCTION own.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"ALTER DATABASE busy_tenant SET search_path = own", "COMMENT ON DATABASE busy_tenant IS 'databases/v1 nonsense'")
	if err != nil {
		t.Fatal(err)
	}
	w.SetPassword = false
	if changes := b.provision(t, w).Changes; len(changes) > 0 {
		t.Errorf("the tenant's own things were changed: %q", changes)
	}
	b.drop(t, w)
}

func dropUnclaimed(t *testing.T, b *bench) {
	w := b.wish("kept")
	b.provision(t, w)
	for what, claim := range map[string]postgres.Claim{
		"another resource": claimOf("ns", "loser"),
		"the same name of an earlier life": {Cluster: w.Claim.Cluster, Group: w.Claim.Group,
			Namespace: w.Claim.Namespace, Name: w.Claim.Name, UID: "earlier"},
	} {
		before := b.catalog(t, w.Name)
		b.trips.take()
		if err := b.admin.Drop(t.Context(), w.Name, claim); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if trips := b.trips.take(); len(trips) != 1 {
			t.Errorf("%s: round trips %q, want one SELECT", what, trips)
		}
		if fmt.Sprint(before) != fmt.Sprint(b.catalog(t, w.Name)) {
			t.Errorf("%s: something was changed", what)
		}
	}
	b.mustLogIn(t, w)
	b.drop(t, w)
}

// openTransactions: catalog rows that a tenant may change are locked by it for as long as it likes.
func openTransactions(t *testing.T, b *bench) {
	w, victim := b.wish("lock_holder"), b.wish("lock_victim")
	b.provision(t, victim)
	victim.SetPassword = false
	for _, locking := range []string{
		"ALTER ROLE lock_holder PASSWORD 'x'", "COMMENT ON DATABASE lock_holder IS 'x'", "ALTER DATABASE lock_holder CONNECTION LIMIT 5",
	} {
		b.provision(t, w)
		conn, err := b.connect(t, w.Name, w.Password, w.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "BEGIN; "+locking); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(locking, "ROLE") {
			var waiting sync.WaitGroup
			for range postgres.MaxConnections {
				waiting.Go(func() {
					_, err := b.admin.Provision(context.WithoutCancel(t.Context()), w)
					if want := `A session holds a lock on the role or the database "lock_holder": PostgreSQL refused ALTER ROLE. End that session, or wait for it.`; err == nil ||
						!strings.HasPrefix(err.Error(), want) {
						t.Errorf("error %v, want %s", err, want)
					}
				})
			}
			b.provision(t, victim)
			waiting.Wait()
		}
		b.drop(t, w)
	}
	b.drop(t, victim)
}

func undroppable(t *testing.T, b *bench) {
	w := b.wish("template_by_tenant")
	b.provision(t, w)
	if err := b.as(t, w.Name, w.Password, w.Name, "ALTER DATABASE template_by_tenant IS_TEMPLATE true"); err != nil {
		t.Fatal(err)
	}
	b.drop(t, w)
}
