package dedicated_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
)

// objects are all that a Database with the name my-database and two replicas has.
func objects() map[string]client.Object {
	return map[string]client.Object{
		"my-database":  &appsv1.StatefulSet{},
		"my-database ": &corev1.Service{}, "my-database-pods": &corev1.Service{}, "my-database-ro": &corev1.Service{},
		"my-database-config": &corev1.ConfigMap{}, "my-database-leader": &corev1.ConfigMap{},
		"my-database-sync": &corev1.ConfigMap{}, "my-database-failover": &corev1.ConfigMap{},
		"my-database  ": &corev1.ServiceAccount{}, "my-database   ": &rbacv1.Role{}, "my-database    ": &rbacv1.RoleBinding{},
		"my-database     ": &policyv1.PodDisruptionBudget{}, "my-database      ": &networkingv1.NetworkPolicy{},
		"my-database-superuser": &corev1.Secret{},
	}
}

func TestObjects(t *testing.T) {
	w := newWorld(t)
	w.start()
	db := w.create("my-database", func(db *databasev1.Database) { db.Spec.Replicas = 2 })
	w.condition("my-database", databasev1.ConditionReady, databasev1.ReasonPodsStarting)
	for name, o := range objects() {
		w.get(trim(name), o)
		if !metav1.IsControlledBy(o, db) {
			t.Errorf("%T %q isn't controlled by the Database", o, name)
		}
	}
	w.quiet("my-database", 2)
	w.writes.take()
	time.Sleep(12 * time.Second) // longer than the wait between two looks
	if all := w.writes.take(); len(all) > 0 {
		t.Errorf("an idle Database costs the writes %q", all)
	}

	// A field that somebody else changes is put back, one that goes comes back.
	service := &corev1.Service{}
	w.get("my-database-ro", service)
	service.Spec.Selector["role"] = "primary"
	if err := w.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	w.eventually("the Service's selector is put back", func() bool {
		w.get("my-database-ro", service)
		return service.Spec.Selector["role"] == "replica"
	})
	if err := w.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	w.eventually("the Service is made again", func() bool {
		again := &corev1.Service{}
		return w.Get(t.Context(), client.ObjectKeyFromObject(service), again) == nil && again.UID != service.UID
	})

	w.change("my-database", func(db *databasev1.Database) { db.Spec.Replicas = 1 })
	w.eventually("the budget of a single replica is deleted", func() bool {
		return client.IgnoreNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(db), &policyv1.PodDisruptionBudget{})) == nil &&
			w.Get(t.Context(), client.ObjectKeyFromObject(db), &policyv1.PodDisruptionBudget{}) != nil
	})
}

func trim(s string) string {
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}
