package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var testClaim = Claim{Cluster: "c", Group: "postgres.example.com", Namespace: "ns", Name: "orders", UID: "u"}

func testWish() Wish {
	return Wish{Name: "orders", Claim: testClaim, ConnectionLimit: NoConnectionLimit, Password: "p", SetPassword: true}
}

func settled() State {
	return State{
		Admin:    AdminState{Name: "admin", Database: "postgres", CreateRole: true, CreateDB: true, Version: 160004},
		Role:     &RoleState{Login: true, ConnectionLimit: NoConnectionLimit, Comment: testClaim.String(), Settable: true},
		Database: &DatabaseState{Owner: "orders", AllowConnections: true},
	}
}

func TestPlan(t *testing.T) {
	limit := 5
	cases := []struct {
		name   string
		wish   func(*Wish)
		have   func(*State)
		want   []Change
		refuse Kind
	}{
		{"all as wished but for the password", nil, nil, []Change{AlterRole{Name: "orders", Password: "p"}}, ""},
		{"all as wished", func(w *Wish) { w.SetPassword = false }, nil, nil, ""},
		{"nothing there, by a weak admin", nil, func(s *State) { s.Role, s.Database = nil, nil }, []Change{
			CreateRole{Name: "orders", Claim: testClaim, ConnectionLimit: -1, Password: "p", Grant: &GrantRole{Name: "orders", SetOnly: true}},
			CreateDatabase{Name: "orders", Owner: "orders"}, OpenDatabase{Name: "orders", Owner: "orders"}}, ""},
		{"nothing there, by a weak admin of an older server", nil, func(s *State) { s.Role, s.Database, s.Admin.Version = nil, nil, 150000 }, []Change{
			CreateRole{Name: "orders", Claim: testClaim, ConnectionLimit: -1, Password: "p", Grant: &GrantRole{Name: "orders"}},
			CreateDatabase{Name: "orders", Owner: "orders"}, OpenDatabase{Name: "orders", Owner: "orders"}}, ""},
		{"nothing there, by a superuser", nil, func(s *State) { s.Role, s.Database, s.Admin.Superuser = nil, nil, true }, []Change{
			CreateRole{Name: "orders", Claim: testClaim, ConnectionLimit: -1, Password: "p"},
			CreateDatabase{Name: "orders", Owner: "orders"}, OpenDatabase{Name: "orders", Owner: "orders"}}, ""},
		{"everything about the role differs", func(w *Wish) { w.ConnectionLimit = limit },
			func(s *State) { s.Role.Login, s.Role.Settable = false, false },
			[]Change{GrantRole{Name: "orders", SetOnly: true}, AlterRole{Name: "orders", Login: true, ConnectionLimit: &limit, Password: "p"}}, ""},
		{"a line without a uid is completed", func(w *Wish) { w.SetPassword = false },
			func(s *State) { s.Role.Comment = handOver(testClaim) },
			[]Change{WriteClaim{Name: "orders", From: handOver(testClaim), Claim: testClaim}, AlterRole{Name: "orders", Password: "p"}}, ""},
		{"a line without a uid, and the password isn't known", func(w *Wish) { w.SetPassword, w.Password = false, "" },
			func(s *State) { s.Role.Comment = handOver(testClaim) }, nil, KindPasswordNeeded},
		{"the role is missing and so is the password", func(w *Wish) { w.Password = "" },
			func(s *State) { s.Role, s.Database = nil, nil }, nil, KindPasswordNeeded},
		{"a privileged role, though it is claimed", nil, func(s *State) { s.Role.BypassRLS = true }, nil, KindNameReserved},
		{"the admin's role", func(w *Wish) { w.Name = "admin" }, nil, nil, KindNameReserved},
		{"the admin's database", func(w *Wish) { w.Name = "ops" }, func(s *State) { s.Admin.Database = "ops" }, nil, KindNameReserved},
		{"a reserved name before a conflict", func(w *Wish) { w.Name = "admin" }, func(s *State) { s.Role.Comment = "x" }, nil, KindNameReserved},
		{"another's claim", nil, func(s *State) { s.Role.Comment = strings.Replace(s.Role.Comment, "uid=u", "uid=v", 1) }, nil, KindNameConflict},
		{"a comment that is no claim", nil, func(s *State) { s.Role.Comment = "the billing team's" }, nil, KindAlreadyExists},
		{"a database without its role", nil, func(s *State) { s.Role = nil }, nil, KindAlreadyExists},
		{"another's database under our role", nil, func(s *State) { s.Database.Owner = "somebody" }, nil, KindAlreadyExists},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wish, have := testWish(), settled()
			if c.wish != nil {
				c.wish(&wish)
			}
			if c.have != nil {
				c.have(&have)
			}
			got, err := Plan(wish, have)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if c.refuse == "" && err != nil || c.refuse != "" && KindOf(err) != c.refuse {
				t.Errorf("error %v, want kind %q", err, c.refuse)
			}
		})
	}
}

// simulate is what the server makes of a change.
func simulate(s State, change Change) State {
	if s.Role != nil {
		role := *s.Role
		s.Role = &role
	}
	if s.Database != nil {
		database := *s.Database
		s.Database = &database
	}
	switch c := change.(type) {
	case CreateRole:
		s.Role = &RoleState{Login: true, ConnectionLimit: c.ConnectionLimit, Comment: c.Claim.String(), Settable: s.Admin.Superuser || c.Grant != nil}
	case WriteClaim:
		s.Role.Comment = c.Claim.String()
	case GrantRole:
		s.Role.Settable = true
	case AlterRole:
		s.Role.Login = s.Role.Login || c.Login
		if c.ConnectionLimit != nil {
			s.Role.ConnectionLimit = *c.ConnectionLimit
		}
	case CreateDatabase:
		s.Database = &DatabaseState{Owner: c.Owner, Public: []string{"CONNECT", "TEMPORARY"}}
	case OpenDatabase:
		s.Database.AllowConnections, s.Database.Public = true, nil
	case DropDatabase:
		s.Database = nil
	}
	return s
}

// TestPlanAfterApplyIsEmpty tries random states: whatever Plan doesn't refuse, it brings to the wish in one go.
func TestPlanAfterApplyIsEmpty(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	flip := func() bool { return r.IntN(2) == 0 }
	planned := 0
	for range 20000 {
		wish, have := testWish(), settled()
		wish.ConnectionLimit = []int{-1, 1, 20}[r.IntN(3)]
		have.Admin.Superuser = flip()
		have.Admin.Version = []int{140000, 180000}[r.IntN(2)]
		have.Role.Login, have.Role.Settable = flip(), flip() || have.Admin.Superuser
		have.Role.ConnectionLimit = []int{-1, 1, 20}[r.IntN(3)]
		have.Role.Comment = []string{testClaim.String(), handOver(testClaim), "", "other"}[r.IntN(4)]
		have.Database.AllowConnections, have.Database.Invalid = flip(), flip()
		have.Database.Public = []string{"CONNECT", "TEMPORARY"}[r.IntN(3):]
		if r.IntN(4) == 0 {
			have.Database = nil
		}
		if r.IntN(4) == 0 {
			have.Role = nil
		}
		changes, err := Plan(wish, have)
		if err != nil {
			continue
		}
		planned++
		after := have
		for _, change := range changes {
			after = simulate(after, change)
		}
		wish.SetPassword = false
		if again, err := Plan(wish, after); err != nil || len(again) > 0 {
			t.Fatalf("from %+v by %v to %+v: planned again %v, error %v", have, changes, after, again, err)
		}
	}
	if planned < 1000 {
		t.Fatalf("only %d states were planned", planned)
	}
}

func TestErrorsAndChangesHoldNoPassword(t *testing.T) {
	const password = "a very secret password"
	limit := 3
	for _, change := range []Change{
		CreateRole{Name: "orders", Claim: testClaim, Password: password, Grant: &GrantRole{Name: "orders"}},
		AlterRole{Name: "orders", Login: true, ConnectionLimit: &limit, Password: password},
	} {
		statements, err := change.statements()
		if err != nil {
			t.Fatal(err)
		}
		text := change.String() + summaries(statements) + fmt.Sprint(statements)
		if strings.Contains(text, "secret") {
			t.Errorf("%T shows the password", change)
		}
		if !slices.ContainsFunc(statements, func(s Statement) bool { return strings.Contains(s.SQL, "SCRAM-SHA-256$4096:") }) {
			t.Errorf("%T sends no verifier: %v", change, statements)
		}
	}
}
