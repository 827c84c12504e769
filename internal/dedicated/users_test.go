package dedicated

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
)

// user makes a shared Database on the server "a", which a finalizer keeps.
func (s *stage) user(name string, policy v1alpha1.DeletionPolicy) *v1alpha1.Database {
	s.Helper()
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: name, Finalizers: []string{"example.com/held"}},
		Spec: v1alpha1.DatabaseSpec{Name: name, DeletionPolicy: policy}}
	db.Spec.ServerRef.Name = "a"
	if err := s.Create(s.Context(), db); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.release(db) })
	return db
}

func (s *stage) release(db *v1alpha1.Database) {
	_ = s.Patch(context.WithoutCancel(s.Context()), db.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

// TestAwaitUsers: while it waits for shared Databases, nothing of the spec is carried out, and what keeps the data safe is.
func TestAwaitUsers(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2).withPostgres()
	s.stream("a-1", 0)
	s.play("primary", "standby synchronous")
	if said := s.look(); said != settled {
		t.Fatalf("at first: %s", said)
	}
	drops := s.user("drops", v1alpha1.DeletionPolicyDelete)
	lives := s.user("lives", v1alpha1.DeletionPolicyRetain)
	if err := s.Delete(t.Context(), drops); err != nil {
		t.Fatal(err)
	}
	s.request("64Mi")
	if err := s.Delete(t.Context(), s.database()); err != nil {
		t.Fatal(err)
	}
	s.happened()
	for _, c := range []struct {
		what    string
		members []string
		users   string
		allowed int32
		noted   string
		primary string
	}{
		{"all is well", []string{"primary", "standby synchronous"}, "drops, lives.", 1, "data-a-0", "a-0"},
		{"the primary moved", []string{"standby synchronous", "primary"}, "drops, lives.", 1, "data-a-1", "a-1"},
		{"no standby has every write", []string{"standby", "primary"}, "drops, lives.", 0, "data-a-1", "a-1"},
		{"one that is ready leads sooner or later", []string{"standby", "standby blinked"}, "drops, lives.", 0, "data-a-1", ""},
		{"nobody can be asked", []string{"standby blinked", "standby blinked"}, "lives.", 0, "data-a-1", ""},
	} {
		s.play(c.members...)
		if said := s.look(); said != settled {
			t.Errorf("%s: UpToDate says %q, though nobody has compared anything", c.what, said)
		}
		db, budget := s.database(), &policyv1.PodDisruptionBudget{}
		s.get("a", budget)
		ready := apimeta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionReady)
		if ready.Reason != databasev1.ReasonInUse || !strings.Contains(ready.Message, "live on it: "+c.users) {
			t.Errorf("%s: Ready is %+v", c.what, ready)
		}
		if db.Status.Primary != c.primary || db.Status.Ready != (c.primary != "") || db.Status.ObservedGeneration != db.Generation {
			t.Errorf("%s: the status is %+v", c.what, db.Status)
		}
		if got := budget.Spec.MaxUnavailable.IntVal; got != c.allowed {
			t.Errorf("%s: %d may be evicted, want %d", c.what, got, c.allowed)
		}
		if claim := s.observed().latest(); claim == nil || claim.Name != c.noted {
			t.Errorf("%s: the claim of the latest data is %v, want %s", c.what, claim, c.noted)
		}
	}
	for _, pod := range s.observed().pods {
		if len(pod.Spec.Containers[0].Resources.Requests) > 0 {
			t.Errorf("%s was restarted for a spec that nobody carries out", pod.Name)
		}
	}
	if err := s.Delete(t.Context(), lives); err != nil {
		t.Fatal(err)
	}
	if users, err := s.users(t.Context(), s.database()); err != nil || len(users) > 0 {
		t.Errorf("the server waits for %q, %v", users, err)
	}
}

// TestAwaitUsersWithoutALogin: a server that nobody could log in to before isn't ready by waiting.
func TestAwaitUsersWithoutALogin(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	s.play("primary")
	s.user("lives", v1alpha1.DeletionPolicyRetain)
	if err := s.Delete(t.Context(), s.database()); err != nil {
		t.Fatal(err)
	}
	s.look()
	if db := s.database(); db.Status.Primary != "a-0" || db.Status.Ready || db.Status.Phase != databasev1.PhaseReady {
		t.Errorf("the status is %+v", db.Status)
	}
}

// TestByUse: what happens to a shared Database wakes its server only where that waits for it.
func TestByUse(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	user := func(server string) *v1alpha1.Database {
		db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: "orders"}}
		db.Spec.ServerRef.Name = server
		return db
	}
	wakes := func(what string, o client.Object, want []reconcile.Request) {
		t.Helper()
		if diff := cmp.Diff(want, s.byUse(t.Context(), o)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	wakes("of a server that stays", user("a"), nil)
	if err := s.Delete(t.Context(), s.database()); err != nil {
		t.Fatal(err)
	}
	wakes("of a server that is to go", user("a"), []reconcile.Request{{NamespacedName: s.key}})
	wakes("of another one", user("b"), nil)
	wakes("of none", user(""), nil)
	wakes("of something else", s.database(), nil)
}

func TestUseChanged(t *testing.T) {
	user := func(policy v1alpha1.DeletionPolicy, deleted bool, version string) *v1alpha1.Database {
		db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Spec: v1alpha1.DatabaseSpec{DeletionPolicy: policy}}
		if deleted {
			db.DeletionTimestamp = new(metav1.Now())
		}
		return db
	}
	before := user(v1alpha1.DeletionPolicyDelete, false, "1")
	for _, c := range []struct {
		what  string
		after client.Object
		want  bool
	}{
		{"a write of the status", user(v1alpha1.DeletionPolicyDelete, false, "2"), false},
		{"it is being deleted", user(v1alpha1.DeletionPolicyDelete, true, "2"), true},
		{"it is to be kept", user(v1alpha1.DeletionPolicyRetain, false, "2"), true},
		{"something else", &databasev1.Database{}, true},
	} {
		if got := useChanged(event.UpdateEvent{ObjectOld: before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: passes %t", c.what, got)
		}
	}
}

// TestKeepUpToDate: the condition is what it was, or isn't there where it wasn't.
func TestKeepUpToDate(t *testing.T) {
	was := metav1.Condition{Type: databasev1.ConditionUpToDate, Status: metav1.ConditionTrue, Reason: databasev1.ReasonUpToDate}
	is := metav1.Condition{Type: databasev1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: databasev1.ReasonInUse}
	before, after := &databasev1.Database{}, &databasev1.Database{}
	after.Status.Conditions = []metav1.Condition{is}
	keepUpToDate(before, after)
	if len(after.Status.Conditions) > 0 {
		t.Errorf("%+v", after.Status.Conditions)
	}
	before.Status.Conditions, after.Status.Conditions = []metav1.Condition{was}, []metav1.Condition{is}
	keepUpToDate(before, after)
	if diff := cmp.Diff(before.Status.Conditions, after.Status.Conditions); diff != "" {
		t.Error(diff)
	}
}
