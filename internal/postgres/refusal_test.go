package postgres_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/databases/internal/postgres"
)

// psql logs in with the real libpq, which normalizes passwords in its own way.
func (b *bench) psql(t *testing.T, w postgres.Wish) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "-tAc", "SELECT current_user",
		"-h", b.Host(), "-p", fmt.Sprint(b.Port()), "-U", w.Name, "-d", w.Name)
	cmd.Env = append(cmd.Environ(), "PGPASSWORD="+w.Password)
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != w.Name {
		t.Errorf("psql with %q: %v: %s", w.Password, err, out)
	}
}

func unclaimedRole(t *testing.T, b *bench) {
	w := b.wish("by_hand")
	b.exec(t, "CREATE ROLE by_hand LOGIN PASSWORD 'secret-by-hand'", "CREATE DATABASE by_hand OWNER by_hand")
	if b.weak { // what an administrator hands over to a weak admin, it must also let it manage
		b.exec(t, grantTo(b, "by_hand"))
	}
	for _, comment := range []string{"NULL", "'the billing team''s'"} {
		b.exec(t, "COMMENT ON ROLE by_hand IS "+comment)
		before := b.catalog(t, w.Name)
		_, err := b.admin.Provision(t.Context(), w)
		message := wantKind(t, err, postgres.KindAlreadyExists)
		if err := b.admin.Drop(t.Context(), w.Name, w.Claim); err != nil {
			t.Errorf("Drop: %v", err)
		}
		if diff := cmp.Diff(before, b.catalog(t, w.Name)); diff != "" {
			t.Errorf("something was written: %s", diff)
		}
		_, statement, found := strings.Cut(message, "run: ")
		if !found || !strings.Contains(statement, "COMMENT ON ROLE") {
			t.Fatalf("message %q has no COMMENT to run", message)
		}
		b.exec(t, statement)
	}
	b.provision(t, w)
	b.mustLogIn(t, w)
	b.drop(t, w)
}

func grantTo(b *bench, role string) string {
	if b.Major() >= 16 {
		return "GRANT " + role + " TO weak_admin WITH ADMIN TRUE, INHERIT FALSE, SET TRUE"
	}
	return "GRANT " + role + " TO weak_admin WITH ADMIN OPTION"
}

func foreignDatabase(t *testing.T, b *bench) {
	w := b.wish("foreign_db")
	b.exec(t, "CREATE DATABASE foreign_db")
	_, err := b.admin.Provision(t.Context(), w)
	message := wantKind(t, err, postgres.KindAlreadyExists)
	if rows := b.query(t, "SELECT 1 FROM pg_roles WHERE rolname = 'foreign_db'"); len(rows) > 0 {
		t.Error("a role was made beside another's database")
	}
	_, statements, _ := strings.Cut(message, "run: ")
	b.exec(t, strings.Split(statements, "; ")...)
	if b.weak {
		b.exec(t, grantTo(b, "foreign_db"))
	}
	b.provision(t, w)
	b.mustLogIn(t, w)

	// Taken away again by hand: neither re-owned nor dropped, though the role is ours.
	b.exec(t, "ALTER DATABASE foreign_db OWNER TO postgres", "REVOKE CONNECT, TEMPORARY ON DATABASE foreign_db FROM foreign_db")
	_, err = b.admin.Provision(t.Context(), w)
	wantKind(t, err, postgres.KindAlreadyExists)
	if err := b.admin.Drop(t.Context(), w.Name, w.Claim); err != nil {
		t.Errorf("Drop: %v", err)
	}
	if rows := b.query(t, "SELECT 1 FROM pg_database WHERE datname = 'foreign_db'"); len(rows) != 1 {
		t.Error("another's database was dropped")
	}
	b.exec(t, "DROP DATABASE foreign_db")
}

func claims(t *testing.T, b *bench) {
	first := b.wish("contested")
	b.provision(t, first)
	before := b.catalog(t, first.Name)
	for _, claim := range []postgres.Claim{
		{Cluster: "c1", Group: first.Claim.Group, Namespace: "other", Name: "contested", UID: first.Claim.UID},
		{Cluster: "c2", Group: first.Claim.Group, Namespace: "ns", Name: "contested", UID: first.Claim.UID},
		{Cluster: "c1", Group: "database.example.com", Namespace: "ns", Name: "contested", UID: first.Claim.UID},
		{Cluster: "c1", Group: first.Claim.Group, Namespace: "ns", Name: "contested", UID: "another"},
	} {
		second := b.wish(first.Name)
		second.Claim = claim
		_, err := b.admin.Provision(t.Context(), second)
		wantKind(t, err, postgres.KindNameConflict)
		if err := b.admin.Drop(t.Context(), second.Name, second.Claim); err != nil {
			t.Errorf("Drop by the loser: %v", err)
		}
	}
	if diff := cmp.Diff(before, b.catalog(t, first.Name)); diff != "" {
		t.Errorf("something was written: %s", diff)
	}
	b.mustLogIn(t, first)

	heir := b.wish(first.Name)
	heir.Claim = claimOf("ns", "heir")
	heir.TakeOver = &first.Claim
	b.provision(t, heir)
	b.mustLogIn(t, heir)
	_, err := b.admin.Provision(t.Context(), first)
	wantKind(t, err, postgres.KindNameConflict)

	b.exec(t, "COMMENT ON ROLE contested IS 'databases/v2 something newer'")
	_, err = b.admin.Provision(t.Context(), heir)
	wantKind(t, err, postgres.KindNameConflict)
	b.exec(t, "COMMENT ON ROLE contested IS '"+heir.Claim.String()+"'")
	b.drop(t, heir)
}

func takeOverRace(t *testing.T, b *bench) {
	// One has planned to take over, another does, and the first goes on.
	old := b.wish("inherited_late")
	b.provision(t, old)
	slow, fast := b.wish(old.Name), b.wish(old.Name)
	slow.Claim, slow.TakeOver = claimOf("ns", "slow"), &old.Claim
	fast.Claim, fast.TakeOver = claimOf("ns", "fast"), &old.Claim
	planned, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.trips.after = func(string) { once.Do(func() { close(planned); <-release }) } // the first SELECT
	late := make(chan error, 1)
	go func() { _, err := b.admin.Provision(context.WithoutCancel(t.Context()), slow); late <- err }()
	<-planned
	b.trips.mu.Lock()
	b.trips.after = nil
	b.trips.mu.Unlock()
	b.provision(t, fast)
	close(release)
	wantKind(t, <-late, postgres.KindNameConflict)
	b.mustLogIn(t, fast)
	b.drop(t, fast)

	first := b.wish("inherited")
	b.provision(t, first)
	errs := make([]error, 6)
	var all sync.WaitGroup
	for i := range errs {
		heir := b.wish(first.Name)
		heir.Claim, heir.TakeOver = claimOf("ns", fmt.Sprintf("heir-%d", i)), &first.Claim
		all.Go(func() { _, errs[i] = b.admin.Provision(context.WithoutCancel(t.Context()), heir) })
	}
	all.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Errorf("heirs %d and %d both won", won, i)
		case err == nil:
			won = i
		default:
			wantKind(t, err, postgres.KindNameConflict)
		}
	}
	if won < 0 {
		t.Fatal("nobody won")
	}
	first.Claim = claimOf("ns", fmt.Sprintf("heir-%d", won))
	b.drop(t, first)
}

func reserved(t *testing.T, b *bench) {
	if b.weak { // the other admin is postgres, a name that is refused anyway
		_, err := b.admin.Provision(t.Context(), b.wish("weak_admin"))
		wantKind(t, err, postgres.KindNameReserved)
	}
	for _, attribute := range []string{"SUPERUSER", "CREATEROLE", "REPLICATION", "BYPASSRLS"} {
		w := b.wish("privileged")
		b.exec(t, "CREATE ROLE privileged "+attribute)
		b.exec(t, "COMMENT ON ROLE privileged IS '"+w.Claim.String()+"'") // the claim doesn't help
		_, err := b.admin.Provision(t.Context(), w)
		wantKind(t, err, postgres.KindNameReserved)
		b.exec(t, "DROP ROLE privileged")
	}
}

func concurrent(t *testing.T, b *bench) {
	wishes := make([]postgres.Wish, 24)
	errs := make([]error, len(wishes))
	var all sync.WaitGroup
	for i := range wishes {
		wishes[i] = b.wish(fmt.Sprintf("many_%d", i/2)) // each twice
		wishes[i].Password = wishes[i/2*2].Password
		all.Go(func() { _, errs[i] = b.admin.Provision(context.WithoutCancel(t.Context()), wishes[i]) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s: %v", wishes[i].Name, err)
		}
	}
	if rows := b.query(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'databases-controller'"); len(rows) != 1 || rows[0][0] > "4" {
		t.Errorf("admin connections: %v, want at most 4", rows)
	}
	for i := range wishes {
		all.Go(func() { errs[i] = b.admin.Drop(context.WithoutCancel(t.Context()), wishes[i].Name, wishes[i].Claim) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s: %v", wishes[i].Name, err)
		}
	}
	if rows := b.query(t, "SELECT rolname FROM pg_roles WHERE rolname LIKE 'many%'"); len(rows) > 0 {
		t.Errorf("still there: %v", rows)
	}
}

func otherAdmin(t *testing.T, b *bench) {
	w := b.wish("made_by_other")
	b.exec(t, "CREATE ROLE made_by_other LOGIN", "CREATE DATABASE made_by_other OWNER made_by_other",
		"COMMENT ON ROLE made_by_other IS '"+w.Claim.String()+"'")
	_, err := b.admin.Provision(t.Context(), w)
	if b.weak && b.Major() >= 16 {
		message := wantKind(t, err, postgres.KindInsufficientPrivilege)
		want := `GRANT "made_by_other" TO "weak_admin" WITH ADMIN TRUE, INHERIT FALSE, SET TRUE`
		_, statement, _ := strings.Cut(message, "run: ")
		if statement != want {
			t.Errorf("statement %q, want %q", statement, want)
		}
		wantKind(t, b.admin.Drop(t.Context(), w.Name, w.Claim), postgres.KindInsufficientPrivilege)
		b.exec(t, statement)
		_, err = b.admin.Provision(t.Context(), w)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.mustLogIn(t, w)
	b.drop(t, w)
}

func adopting(t *testing.T, b *bench) {
	old, other := b.wish("adopted"), b.wish("adopted_not")
	other.Claim.Cluster = "c3"
	b.provision(t, old)
	b.provision(t, other)
	found, err := b.admin.Claims(t.Context(), "c3")
	if diff := cmp.Diff([]postgres.Claimed{{Role: "adopted_not", Claim: other.Claim}}, found); err != nil || diff != "" {
		t.Errorf("Claims: %v %s", err, diff)
	}
	line := claimOf("ns", "adopted")
	line.Cluster, line.UID = "c9", ""
	wantKind(t, b.admin.Adopt(t.Context(), "adopted", line, nil), postgres.KindNameConflict)
	wantKind(t, b.admin.Adopt(t.Context(), "adopted", line, &other.Claim), postgres.KindNameConflict)
	wantKind(t, b.admin.Adopt(t.Context(), "nobody", line, nil), postgres.KindFailed)
	for range 2 {
		if err := b.admin.Adopt(t.Context(), "adopted", line, &old.Claim); err != nil {
			t.Fatal(err)
		}
	}
	heir := b.wish("adopted")
	heir.Claim = line
	heir.Claim.UID = "new"
	b.provision(t, heir)
	b.mustLogIn(t, heir)
	b.drop(t, heir)
	b.drop(t, other)
}
