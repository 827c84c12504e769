package monitoring_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// world is a namespace and a server in which things happen.
type world struct {
	*testing.T
	client.Client
	namespace string
	server    *postgrestest.Server
}

// sharedLife makes a Database, changes its role behind the program's back, rotates its password, and asks for the same name
// again.
func (w *world) sharedLife() {
	w.Helper()
	w.create("orders")
	w.wait("orders", v1alpha1.ReasonProvisioned)
	if err := w.server.Exec(w.Context(), "ALTER ROLE orders NOLOGIN"); err != nil {
		w.Fatal(err)
	}
	w.look("orders")
	eventually(w.T, "the role may log in again", func() bool {
		rows, err := w.server.Query(w.Context(), "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'orders'")
		return err == nil && rows[0][0] == "t"
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders-postgres"}}
	if err := w.Delete(w.Context(), secret); err != nil {
		w.Fatal(err)
	}
	eventually(w.T, "a Secret with a new password", func() bool {
		return w.Get(w.Context(), client.ObjectKeyFromObject(secret), secret) == nil
	})
	w.create("copy")
	w.wait("copy", v1alpha1.ReasonNameConflict)
}

// serverGoes stops the server and lets a statement find out.
func (w *world) serverGoes() {
	w.Helper()
	if err := w.server.Stop(); err != nil {
		w.Fatal(err)
	}
	w.look("orders")
	w.wait("orders", v1alpha1.ReasonPostgresUnavailable)
}

func (w *world) create(name string) {
	w.Helper()
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.DatabaseSpec{Name: "orders"}}
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
}

// look makes the program look at a Database now.
func (w *world) look(name string) {
	w.Helper()
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.ReconcileAnnotation + `":"` + time.Now().String() + `"}}}`)
	if err := w.Patch(w.Context(), db, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) wait(name, reason string) {
	w.Helper()
	eventually(w.T, name+" has the reason "+reason, func() bool {
		db := &v1alpha1.Database{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, db); err != nil {
			return false
		}
		ready := apimeta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason
	})
}

// dedicatedLife makes a server whose pods nothing runs here; what Patroni and the kubelet would write is written by hand: a
// primary, and then another one.
func (w *world) dedicatedLife() {
	w.Helper()
	db := &databasev1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "lab"},
		Spec: databasev1.DatabaseSpec{
			Image: "postgres:15", Replicas: 2, DatabaseName: "mydb", Username: "admin", Storage: databasev1.Storage{Size: "1Gi"},
		},
	}
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	for _, name := range []string{"lab-0", "lab-1"} {
		w.lead(name)
		eventually(w.T, name+" is the primary", func() bool {
			return w.Get(w.Context(), client.ObjectKeyFromObject(db), db) == nil && db.Status.Primary == name
		})
	}
}

// lead makes a pod the ready primary.
func (w *world) lead(name string) {
	w.Helper()
	pod := &corev1.Pod{}
	eventually(w.T, "a pod "+name, func() bool {
		return w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, pod) == nil
	})
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := w.Status().Update(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
	leader := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "lab-leader"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"leader":"`+name+`"}}}`))
	eventually(w.T, "Patroni's store names "+name, func() bool {
		err := w.Patch(w.Context(), leader, patch)
		if err != nil && !apierrors.IsNotFound(err) {
			w.Fatal(err)
		}
		return err == nil
	})
	// The controller takes the label off a pod that its cache doesn't show as the leader yet.
	eventually(w.T, name+" is labelled as the primary", func() bool {
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"role":"primary"}}}`))
		if err := w.Patch(w.Context(), pod, label); err != nil {
			w.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		return w.Get(w.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Labels["role"] == "primary"
	})
}
