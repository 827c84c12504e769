//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
)

// createOn makes a shared Database on a dedicated server.
func (w *world) createOn(server, name string, policy v1alpha1.DeletionPolicy) *v1alpha1.Database {
	w.Helper()
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.DatabaseSpec{Name: name, DeletionPolicy: policy}}
	db.Spec.ServerRef.Name = server
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	return db
}

// reason waits until the shared Database's Ready has the reason.
func (w *world) reason(name, reason string) *v1alpha1.Database {
	w.Helper()
	db := &v1alpha1.Database{}
	w.eventually(fmt.Sprintf("%s has the reason %s", name, reason), func() bool {
		w.get(name, db)
		ready := apimeta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.ObservedGeneration == db.Generation
	}, func() string { return fmt.Sprintf("%+v", db.Status) }, func() string { return w.kubectl("get", "pods,pgserver,pgdb,events") })
	return db
}

// loginTo is the shared Database's Secret.
func (w *world) loginTo(name string) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{}
	w.get(name+v1alpha1.SecretSuffix, secret)
	return secret
}

// TestServerRef: shared Databases of both policies live on a dedicated server, move with its primary, and keep it until
// they are gone.
func TestServerRef(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.releaseShared()
	w.start()
	users := []string{"kept", "dropped"}
	w.createOn("ledger", "kept", v1alpha1.DeletionPolicyRetain)
	w.createOn("ledger", "dropped", v1alpha1.DeletionPolicyDelete)
	for _, name := range users {
		w.reason(name, v1alpha1.ReasonServerNotFound)
	}
	server := w.create("ledger", func(db *databasev1.Database) { db.Spec.Replicas = 2 })
	w.settled("ledger")
	versions := map[string]string{}
	for _, name := range users {
		w.reason(name, v1alpha1.ReasonProvisioned)
		login := w.loginTo(name)
		versions[name] = string(login.UID) + "/" + login.ResourceVersion
		want := fmt.Sprintf("%s|%s|f", name, name)
		got, err := w.psql(string(login.Data["uri"]), "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);",
			"SELECT current_user, current_database(), rolsuper FROM pg_roles WHERE rolname = current_user;")
		if err != nil || got != want {
			t.Errorf("%s: psql prints %q, %v; want %q", name, got, err, want)
		}
		if got, want := string(login.Data["host"]), "ledger."+w.namespace+".svc.cluster.local"; got != want {
			t.Errorf("%s: host %s, want %s", name, got, want)
		}
	}

	// The primary goes, once the standby may take over: before, the pod that comes back under the old name would be it.
	runner, err := w.newRunner("ledger")
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, after := &databasev1.Database{}, &databasev1.Database{}
	w.get("ledger", before)
	w.kubectl("delete", "pod", before.Status.Primary, "--wait=false")
	w.eventually("the other member is the primary", func() bool {
		w.get("ledger", after)
		return after.Status.Primary != "" && after.Status.Primary != before.Status.Primary
	}, func() string { return w.kubectl("get", "pods,pgserver", "-o", "wide") })
	for _, name := range users {
		w.eventually(name+" writes again", func() bool {
			_, err := w.psql(string(w.loginTo(name).Data["uri"]), "INSERT INTO t VALUES (2);")
			return err == nil
		})
		w.kubectl("annotate", "pgdb", name, v1alpha1.ReconcileAnnotation+"=1")
	}
	// A new one comes through the new primary, and after it nothing of the others is changed.
	w.createOn("ledger", "late", v1alpha1.DeletionPolicyDelete)
	w.reason("late", v1alpha1.ReasonProvisioned)
	now := map[string]string{}
	for _, name := range users {
		w.reason(name, v1alpha1.ReasonProvisioned)
		login := w.loginTo(name)
		now[name] = string(login.UID) + "/" + login.ResourceVersion
	}
	if !maps.Equal(versions, now) {
		t.Errorf("the Secrets' versions were %v and are %v", versions, now)
	}

	if primary := w.settled("ledger").Status.Primary; primary != after.Status.Primary {
		t.Errorf("the primary is %s, and %s had taken over", primary, after.Status.Primary)
	}
	w.serverWaits(server)
}

// serverWaits deletes the server, and then the Databases on it.
func (w *world) serverWaits(server *databasev1.Database) {
	w.Helper()
	pods := w.pods("ledger")
	if err := w.Delete(w.Context(), server); err != nil {
		w.Fatal(err)
	}
	waits := w.condition("ledger", databasev1.ConditionReady, databasev1.ReasonInUse)
	if got := apimeta.FindStatusCondition(waits.Status.Conditions, databasev1.ConditionReady).Message; !strings.Contains(got, ": dropped, kept, late. ") {
		w.Errorf("message %q", got)
	}
	if _, err := w.psql(string(w.loginTo("dropped").Data["uri"]), "INSERT INTO t VALUES (3);"); err != nil {
		w.Errorf("while it waits: %v", err)
	}
	w.kubectl("delete", "pgdb", "dropped", "late", "--timeout=2m")
	got, err := w.psql(string(w.loginTo("kept").Data["uri"]), "SELECT datname FROM pg_database WHERE datname IN ('kept', 'dropped', 'late');")
	if err != nil || got != "kept" {
		w.Errorf("of the Databases there are %q, %v; want the one that is kept", got, err)
	}
	if now := w.pods("ledger"); !same(pods, now) {
		w.Errorf("the pods were %v and are %v", pods, now)
	}
	w.kubectl("delete", "pgdb", "kept", "--timeout=2m")
	w.gone("ledger", &databasev1.Database{})
	w.gone("ledger", &appsv1.StatefulSet{})
}

// releaseShared lets shared Databases go that a failed case leaves.
func (w *world) releaseShared() {
	w.Cleanup(func() {
		if w.Failed() {
			_, _ = w.tryKubectl("", "patch", "pgdb", "--all", "--type", "merge", "-p", `{"metadata":{"finalizers":null}}`)
		}
	})
}

// TestServerRefNamespace: with its namespace a server goes, and what lives on it, in whatever order Kubernetes deletes.
func TestServerRefNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.releaseShared()
	w.start()
	w.create("ledger", func(db *databasev1.Database) { db.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
	w.createOn("ledger", "kept", v1alpha1.DeletionPolicyRetain)
	w.createOn("ledger", "dropped", v1alpha1.DeletionPolicyDelete)
	for _, name := range []string{"kept", "dropped"} {
		w.reason(name, v1alpha1.ReasonProvisioned)
	}
	w.kubectl("delete", "namespace", w.namespace, "--wait=false")
	w.eventually("the namespace is gone", func() bool {
		return apierrors.IsNotFound(w.Get(w.Context(), client.ObjectKey{Name: w.namespace}, &corev1.Namespace{}))
	}, func() string { return w.kubectl("get", "pods,pgserver,pgdb,secrets,pvc", "-o", "wide") },
		func() string { return w.kubectl("get", "namespace", w.namespace, "-o", "yaml") })
}

// TestServerRefServerFirst: a server that stops for good doesn't wait for a Database that is to be dropped; that one goes
// without SQL then, and an event says where its data is.
func TestServerRefServerFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.releaseShared()
	w.start()
	server := w.create("ledger")
	w.createOn("ledger", "dropped", v1alpha1.DeletionPolicyDelete)
	w.reason("dropped", v1alpha1.ReasonProvisioned)
	w.kubectl("annotate", "pgdb", "dropped", v1alpha1.PausedAnnotation+"=true")
	w.kubectl("delete", "pgdb", "dropped", "--wait=false")
	w.kubectl("delete", "pgserver", "ledger", "--wait=false")
	w.condition("ledger", databasev1.ConditionReady, databasev1.ReasonInUse) // it still answers
	w.kubectl("delete", "statefulset", "ledger")
	w.gone("ledger", server)
	w.kubectl("annotate", "pgdb", "dropped", v1alpha1.PausedAnnotation+"-")
	w.gone("dropped", &v1alpha1.Database{})
	var events eventsv1.EventList
	w.eventually("an event says what is left", func() bool {
		if err := w.List(w.Context(), &events, client.InNamespace(w.namespace)); err != nil {
			w.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Regarding.Name == "dropped" && e.Reason == v1alpha1.ReasonDatabaseLeft {
				return true
			}
		}
		return false
	})
}
