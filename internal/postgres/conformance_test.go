package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestConformance runs every case on each supported major version, as a superuser and as a weak admin. The leak test
// comes last: it reads the log of all that the others did.
func TestConformance(t *testing.T) {
	cases := []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"a database is made, used, left alone and dropped", wholeLife},
		{"the names that people choose work", names},
		{"a database may have another name than its owner", otherName},
		{"PUBLIC is kept out of a tenant's database", isolation},
		{"an interrupted creation goes on from where it was", interrupted},
		{"what drifted is repaired and nothing else is touched", drift},
		{"a changed password is set and an old one forgotten", passwords},
		{"a missing database is made again", recreated},
		{"a database left by an interrupted DROP is made anew", invalid},
		{"a role that nobody claimed is left alone until it is handed over", unclaimedRole},
		{"a database of another owner is left alone until it is handed over", foreignDatabase},
		{"another resource's name is refused, and taken over only when told", claims},
		{"two that take over one role: one wins", takeOverRace},
		{"the admin's own and privileged names are refused", reserved},
		{"many at once, and the same at once", concurrent},
		{"DROP ends sessions that come back all the time", dropWithSessions},
		{"DROP waits for what it can't end and names it", dropBlocked},
		{"a role with dependents elsewhere is kept until they are gone", dependents},
		{"what the tenant made in its own database goes with it", tenantObjects},
		{"DROP touches nothing that isn't claimed", dropUnclaimed},
		{"a tenant's open transactions hold up only itself", openTransactions},
		{"a tenant can't make its database undroppable", undroppable},
		{"a role of another admin needs a GRANT, which the message gives", otherAdmin},
		{"adopting", adopting},
		{"the server's word on parameters is foreseen", parameters},
		{"a checkpoint, by who may", checkpoint},
		{"standbys, where there are none", noStandbys},
		{"no password in the server's log, nothing only a superuser may say", leaks},
	}
	for _, major := range postgrestest.Versions {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) {
			t.Parallel()
			server := postgrestest.Start(t, postgrestest.Options{Major: major, Settings: map[string]string{"log_statement": "all"}})
			for _, weak := range []bool{false, true} {
				t.Run(map[bool]string{false: "superuser", true: "weak admin"}[weak], func(t *testing.T) {
					b := newBench(t, server, weak)
					for _, c := range cases {
						t.Run(c.name, func(t *testing.T) { c.run(t, b) })
					}
				})
			}
		})
	}
}

func wholeLife(t *testing.T, b *bench) {
	warmUp := b.wish("warm_up") // so that the connection is pooled
	b.provision(t, warmUp)
	b.drop(t, warmUp)
	b.trips.take()

	w := b.wish("whole_life")
	outcome := b.provision(t, w)
	if !outcome.RoleCreated || !outcome.DatabaseCreated {
		t.Errorf("outcome %+v, want both created", outcome)
	}
	if trips := b.trips.take(); len(trips) > 6 {
		t.Errorf("%d round trips, want at most 6: %q", len(trips), trips)
	}
	b.mustLogIn(t, w)
	if err := b.as(t, w.Name, w.Password, w.Name, "CREATE TABLE t (i int)", "INSERT INTO t VALUES (1)"); err != nil {
		t.Errorf("the owner can't work in its database: %v", err)
	}

	before := b.catalog(t, w.Name)
	w.SetPassword = false
	for range 20 {
		if outcome := b.provision(t, w); len(outcome.Changes) > 0 {
			t.Errorf("a second Provision changed %q", outcome.Changes)
		}
	}
	if trips := b.trips.take(); len(trips) != 20 || len(slices.Compact(trips)) != 1 {
		t.Errorf("twenty Provisions with nothing to do made round trips %q", trips)
	}
	if diff := cmp.Diff(before, b.catalog(t, w.Name)); diff != "" {
		t.Errorf("catalog rows were rewritten: %s", diff)
	}

	b.drop(t, w)
	b.drop(t, w) // once more is no error
}

// catalog is the xmin of every catalog row about a name: rewriting one, even with the same values, changes it.
func (b *bench) catalog(t *testing.T, name string) [][]string {
	return b.query(t, fmt.Sprintf(`
		SELECT 'role', a.xmin::text, a.oid::text FROM pg_authid a WHERE rolname = '%[1]s'
		UNION ALL SELECT 'database', d.xmin::text, d.oid::text FROM pg_database d WHERE datname = '%[1]s'
		UNION ALL SELECT 'member', m.xmin::text, m.member::text FROM pg_auth_members m, pg_roles r WHERE r.oid = m.roleid AND r.rolname = '%[1]s'
		UNION ALL SELECT 'comment', s.xmin::text, s.description FROM pg_shdescription s, pg_roles r WHERE r.oid = s.objoid AND r.rolname = '%[1]s'
		ORDER BY 1, 2`, name))
}

func otherName(t *testing.T, b *bench) {
	w := b.wish("its_owner")
	w.Database = "its_database"
	outcome := b.provision(t, w)
	if !outcome.RoleCreated || !outcome.DatabaseCreated {
		t.Errorf("outcome %+v, want both created", outcome)
	}
	if err := b.as(t, w.Name, w.Password, w.Database, "CREATE TABLE t (i int)"); err != nil {
		t.Errorf("the owner can't work in its database: %v", err)
	}
	if ok, err := b.admin.CheckLogin(t.Context(), w.Name, w.Database, w.Password); !ok || err != nil {
		t.Errorf("CheckLogin: %v, %v", ok, err)
	}
	w.SetPassword = false
	if outcome := b.provision(t, w); len(outcome.Changes) > 0 {
		t.Errorf("a second Provision changed %q", outcome.Changes)
	}
	b.exec(t, "ALTER DATABASE its_database OWNER TO postgres")
	_, err := b.admin.Provision(t.Context(), w)
	wantKind(t, err, postgres.KindAlreadyExists)
	b.exec(t, "DROP DATABASE its_database")
	b.drop(t, w)
}

func names(t *testing.T, b *bench) {
	for _, name := range []string{"My-App", "select", "_", "a-", strings.Repeat("x", 63)} {
		w := b.wish(name)
		b.provision(t, w)
		b.mustLogIn(t, w)
		b.drop(t, w)
	}
	long := b.wish(strings.Repeat("x", 63))
	b.provision(t, long)
	for _, name := range []string{"", strings.Repeat("x", 64), "pg_x", "public", "none", "postgres", `a"b`, "a'b", "a b", "a;b", "1a", "-a", "ä", "a\x00b"} {
		_, err := b.admin.Provision(t.Context(), postgres.Wish{Name: name, Claim: claimOf("ns", "n"), Password: "p"})
		wantKind(t, err, postgres.KindNameReserved)
		if err := b.admin.Drop(t.Context(), name, long.Claim); err != nil {
			t.Errorf("Drop(%q): %v", name, err)
		}
	}
	b.mustLogIn(t, long) // the server cuts names at 63 bytes; the 64-byte DROP must not have hit it
	b.drop(t, long)
}

func isolation(t *testing.T, b *bench) {
	one, two := b.wish("isolated_one"), b.wish("isolated_two")
	b.provision(t, two)
	tried := false
	b.trips.before = func(operation string) error { // the database is made, PUBLIC isn't out yet
		if strings.Contains(operation, "REVOKE DATABASE") {
			tried = true
			if err := b.as(t, two.Name, two.Password, one.Name); code(err) != "55000" {
				t.Errorf("another tenant slipped in between: error %v, want SQLSTATE 55000", err)
			}
		}
		return nil
	}
	b.provision(t, one)
	b.trips.before = nil
	if !tried {
		t.Error("the moment between was missed")
	}
	if got := code(b.as(t, two.Name, two.Password, one.Name)); got != "42501" {
		t.Errorf("another tenant's connection: SQLSTATE %q, want 42501", got)
	}
	if err := b.as(t, one.Name, one.Password, one.Name, "CREATE TABLE public.t (i int)"); err != nil {
		t.Errorf("the owner in schema public: %v", err)
	}
	for what, sql := range map[string]string{
		"its own comment":          "COMMENT ON ROLE isolated_one IS 'mine'",
		"its own connection limit": "ALTER ROLE isolated_one CONNECTION LIMIT 1000",
		"its own privileges":       "ALTER ROLE isolated_one CREATEDB",
		"the other database":       "DROP DATABASE isolated_two",
		"the other role":           "SET ROLE isolated_two",
	} {
		if b.as(t, one.Name, one.Password, one.Name, sql) == nil {
			t.Errorf("a tenant may change %s: %s", what, sql)
		}
	}
	b.drop(t, one)
	b.drop(t, two)
}

// interrupted ends Provision before each of its round trips in turn and lets it start over.
func interrupted(t *testing.T, b *bench) {
	for n := 1; ; n++ {
		w := b.wish(fmt.Sprintf("interrupted_%d", n))
		seen := 0
		b.trips.before = func(string) error {
			if seen++; seen == n {
				return fmt.Errorf("interrupted")
			}
			return nil
		}
		_, err := b.admin.Provision(t.Context(), w)
		b.trips.before = nil
		w.Password = b.wish(w.Name).Password // the next try knows nothing of the first one's password
		b.provision(t, w)
		b.mustLogIn(t, w)
		b.drop(t, w)
		if err == nil {
			if n < 5 {
				t.Errorf("Provision made only %d round trips", n-1)
			}
			return
		}
	}
}

func drift(t *testing.T, b *bench) {
	w := b.wish("drifted")
	w.ConnectionLimit = 7
	b.provision(t, w)
	w.SetPassword = false
	for _, c := range []struct{ sql, change string }{
		{"ALTER ROLE drifted NOLOGIN", "ALTER ROLE drifted (LOGIN)"},
		{"ALTER ROLE drifted CONNECTION LIMIT 8", "ALTER ROLE drifted (CONNECTION LIMIT 7)"},
		{"GRANT CONNECT ON DATABASE drifted TO PUBLIC", "ALTER DATABASE drifted"},
		{"GRANT TEMPORARY ON DATABASE drifted TO PUBLIC", "ALTER DATABASE drifted"},
		{"ALTER DATABASE drifted ALLOW_CONNECTIONS false", "ALTER DATABASE drifted"},
	} {
		b.exec(t, c.sql)
		if diff := cmp.Diff([]string{c.change}, b.provision(t, w).Changes); diff != "" {
			t.Errorf("after %s: %s", c.sql, diff)
		}
		if changes := b.provision(t, w).Changes; len(changes) > 0 {
			t.Errorf("after %s and its repair: %q", c.sql, changes)
		}
	}
	if b.weak {
		if b.Major() >= 16 { // the creator's own membership, with ADMIN only, stays
			b.exec(t, "REVOKE drifted FROM weak_admin GRANTED BY weak_admin")
		} else {
			b.exec(t, "REVOKE drifted FROM weak_admin")
		}
		if diff := cmp.Diff([]string{"GRANT ROLE drifted"}, b.provision(t, w).Changes); diff != "" {
			t.Errorf("after the membership was taken away: %s", diff)
		}
	}
	b.mustLogIn(t, w)
	b.drop(t, w)
}

func passwords(t *testing.T, b *bench) {
	old := b.wish("password_changes")
	b.provision(t, old)
	w := b.wish(old.Name)
	b.provision(t, w)
	b.mustLogIn(t, w)
	if got := code(b.as(t, old.Name, old.Password, old.Name)); got != "28P01" {
		t.Errorf("the old password: SQLSTATE %q, want 28P01", got)
	}
	for _, password := range []string{`pa'ss"w\ord`, "pass word %41 +&=?/#@:", "Пароль-密码", "\u2168 ﬁ ½", "non\u00a0breaking", "tab\tnewline\n"} {
		w.Password = password
		b.provision(t, w)
		if ok, err := b.admin.CheckLogin(t.Context(), w.Name, w.Name, password); !ok || err != nil {
			t.Errorf("CheckLogin with %q: %v, %v", password, ok, err)
		}
		b.psql(t, w)
	}
	if ok, err := b.admin.CheckLogin(t.Context(), w.Name, w.Name, "wrong"); ok || err != nil {
		t.Errorf("CheckLogin with a wrong password: %v, %v", ok, err)
	}
	w.Password = "nul\x00byte"
	_, err := b.admin.Provision(t.Context(), w)
	wantKind(t, err, postgres.KindPasswordRejected)

	missing := b.wish("password_missing")
	missing.Password, missing.SetPassword = "", false
	_, err = b.admin.Provision(t.Context(), missing)
	wantKind(t, err, postgres.KindPasswordNeeded)
	b.drop(t, w)
}

func recreated(t *testing.T, b *bench) {
	w := b.wish("recreated")
	b.provision(t, w)
	b.exec(t, "DROP DATABASE recreated")
	w.SetPassword = false
	outcome := b.provision(t, w)
	if outcome.RoleCreated || !outcome.DatabaseCreated {
		t.Errorf("outcome %+v, want the database created alone", outcome)
	}
	b.mustLogIn(t, w)
	b.exec(t, "DROP DATABASE recreated")
	b.drop(t, w) // a role without its database
	b.provision(t, b.wish("recreated"))
	b.exec(t, "DROP DATABASE recreated", "DROP ROLE recreated")
	b.drop(t, w) // nothing at all
}

func invalid(t *testing.T, b *bench) {
	w := b.wish("half_dropped")
	for _, drop := range []bool{false, true} {
		b.provision(t, w)
		b.exec(t, "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half_dropped'")
		if drop {
			b.drop(t, w)
			return
		}
		w.SetPassword = false
		if outcome := b.provision(t, w); !outcome.DatabaseCreated {
			t.Errorf("outcome %+v, want the database created", outcome)
		}
		b.mustLogIn(t, w)
	}
}

// leaks reads the server's log of all that came before on this server.
func leaks(t *testing.T, b *bench) {
	log, err := b.Log()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log, "CREATE ROLE") {
		t.Fatal("the log doesn't have the statements")
	}
	for _, password := range b.passwords {
		for i := 0; i+8 <= len(password); i++ {
			if strings.Contains(log, password[i:i+8]) {
				t.Fatal("a piece of a password is in PostgreSQL's log")
			}
		}
	}
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "databases-controller") || !strings.Contains(line, "LOG:") {
			continue
		}
		for _, word := range []string{"pg_authid", "SUPERUSER", "NOREPLICATION", "BYPASSRLS"} {
			if strings.Contains(line, word) {
				t.Errorf("the admin says %s: %s", word, line)
			}
		}
	}
}
