package dedicated_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
)

// createUser makes a shared Database on a server.
func (w *world) createUser(name, server string, policy v1alpha1.DeletionPolicy) *v1alpha1.Database {
	w.Helper()
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.DatabaseSpec{Name: name, DeletionPolicy: policy}}
	db.Spec.ServerRef.Name = server
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	w.eventually(name+" is looked after", func() bool {
		w.get(name, db)
		return len(db.Finalizers) > 0
	})
	return db
}

func (w *world) deleted(o client.Object) {
	w.Helper()
	if err := w.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) gone(o client.Object) {
	w.Helper()
	w.eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func() bool {
		return apierrors.IsNotFound(w.Get(w.Context(), client.ObjectKeyFromObject(o), o))
	}, func() any { return o }, func() any { return w.log.String() })
}

// TestInUse: a server runs on while shared Databases live on it, and goes with the last one. Here no pod gets a node, so
// that the server can't drop anything either.
func TestInUse(t *testing.T) {
	w := newWorld(t)
	w.start()
	db := w.create("ledger")
	w.condition("ledger", databasev1.ConditionReady, databasev1.ReasonPodsStarting)
	var users []*v1alpha1.Database
	for i := range 7 {
		policy := v1alpha1.DeletionPolicyRetain
		if i%2 == 0 {
			policy = v1alpha1.DeletionPolicyDelete
		}
		users = append(users, w.createUser(fmt.Sprint("user", i), "ledger", policy))
	}
	w.createUser("elsewhere", "another", v1alpha1.DeletionPolicyRetain)
	w.quiet("ledger", 1)
	w.deleted(db)
	waits := w.condition("ledger", databasev1.ConditionReady, databasev1.ReasonInUse)
	if !strings.Contains(message(waits), ": user0, user1, user2, user3, user4 and 2 more. ") {
		t.Errorf("message %q", message(waits))
	}
	if c := apimeta.FindStatusCondition(waits.Status.Conditions, databasev1.ConditionUpToDate); c == nil || c.Reason == databasev1.ReasonInUse {
		t.Errorf("UpToDate is %+v, though nobody has compared anything", c)
	}
	w.eventually("an event says so", func() bool { return w.hasEvent("ledger", databasev1.ReasonInUse) })
	set := &appsv1.StatefulSet{}
	w.get("ledger", set)
	if set.DeletionTimestamp != nil {
		t.Error("the server is stopped while it is in use")
	}

	// Waiting costs nothing, and one that ends among many is no reason to go.
	w.writes.take()
	w.change("ledger", func(db *databasev1.Database) { db.Annotations = map[string]string{databasev1.ReconcileAnnotation: "1"} })
	w.quiet("ledger", 1)
	if writes := w.writes.take(); len(writes) > 0 {
		t.Errorf("another look costs the writes %q", writes)
	}
	for _, user := range users[:6] {
		w.deleted(user)
	}
	w.eventually("one is left", func() bool {
		w.get("ledger", waits)
		return strings.Contains(message(waits), "live on it: user6. ")
	}, func() any { return message(waits) })
	w.gone(users[1]) // Retain
	w.get("ledger", set)
	if set.DeletionTimestamp != nil {
		t.Error("the server is stopped while it is in use")
	}
	w.deleted(users[6])
	w.gone(db)
	for _, user := range users {
		w.gone(user)
	}
}

// TestNamespaceGoes: a namespace can be deleted with a server and Databases on it, whatever goes first.
func TestNamespaceGoes(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("ledger")
	w.condition("ledger", databasev1.ConditionReady, databasev1.ReasonPodsStarting)
	w.createUser("kept", "ledger", v1alpha1.DeletionPolicyRetain)
	dropped := w.createUser("dropped", "ledger", v1alpha1.DeletionPolicyDelete)
	before := dropped.DeepCopy()
	dropped.Status.SecretVersion = "u/1" // as if it had been provisioned once
	if err := w.Status().Patch(t.Context(), dropped, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.quiet("ledger", 1)
	w.deleted(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.gone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	if strings.Contains(w.log.String(), "panic") {
		t.Error("something panicked")
	}
}

// TestStopGoesOn: once the stop has begun, a Database that is made on the server doesn't hold it up, and isn't
// provisioned there.
func TestStopGoesOn(t *testing.T) {
	w := newWorld(t)
	w.start()
	db := w.create("ledger")
	w.condition("ledger", databasev1.ConditionReady, databasev1.ReasonPodsStarting)
	w.quiet("ledger", 1)
	pod := &corev1.Pod{}
	w.get("ledger-0", pod)
	before := pod.DeepCopy()
	pod.Finalizers = []string{"example.com/held"} // so that the pods are never gone before the new Database is there
	if err := w.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.deleted(db)
	w.eventually("the pod is told to end", func() bool {
		w.get("ledger-0", pod)
		return pod.DeletionTimestamp != nil
	})
	late := w.createUser("late", "ledger", v1alpha1.DeletionPolicyRetain)
	w.change("ledger", func(db *databasev1.Database) { db.Annotations = map[string]string{databasev1.ReconcileAnnotation: "1"} })
	time.Sleep(time.Second)
	w.get("ledger", db)
	if c := apimeta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionReady); c != nil && c.Reason == databasev1.ReasonInUse {
		t.Errorf("the server waits again: %s", c.Message)
	}
	before = pod.DeepCopy()
	pod.Finalizers = nil
	if err := w.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.gone(db)
	w.eventually("the new Database says that its server is gone", func() bool {
		w.get("late", late)
		c := apimeta.FindStatusCondition(late.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == v1alpha1.ReasonServerNotFound
	}, func() any { return late.Status.Conditions })
}
