package dedicated_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// TestChildConflict: whatever is in the way of a name stays as it is, and when it goes the Database goes on.
func TestChildConflict(t *testing.T) {
	w := newWorld(t)
	w.start()
	theirs := metav1.ObjectMeta{Namespace: w.namespace, Labels: map[string]string{"theirs": "yes"}}
	port := []corev1.ServicePort{{Port: 80}}
	claimSpec := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
	for name, o := range map[string]client.Object{
		"svc:-ro":        &corev1.Service{ObjectMeta: theirs, Spec: corev1.ServiceSpec{Ports: port}},
		"svc:":           &corev1.Service{ObjectMeta: theirs, Spec: corev1.ServiceSpec{Ports: port}},
		"map:-leader":    &corev1.ConfigMap{ObjectMeta: theirs},
		"sup:-superuser": &corev1.Secret{ObjectMeta: theirs},
		"pvc:":           &corev1.PersistentVolumeClaim{ObjectMeta: theirs, Spec: claimSpec},
	} {
		kind, suffix, _ := strings.Cut(name, ":")
		database := "db-" + kind + strings.ReplaceAll(suffix, "-", "x")
		o.SetName(database + suffix)
		if kind == "pvc" {
			o.SetName("data-" + database + "-0")
		}
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		version := o.GetResourceVersion()
		w.create(database)
		db := w.condition(database, databasev1.ConditionReady, databasev1.ReasonChildConflict)
		if db.Status.Phase != databasev1.PhaseFailed || !strings.Contains(message(db), o.GetName()) {
			t.Errorf("%s: phase %s, message %q", name, db.Status.Phase, message(db))
		}
		w.get(o.GetName(), o)
		if o.GetResourceVersion() != version {
			t.Errorf("%s: the object in the way was changed", name)
		}
		if err := w.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.change(database, func(db *databasev1.Database) { db.Annotations = map[string]string{databasev1.ReconcileAnnotation: "1"} })
		w.condition(database, databasev1.ConditionReady, databasev1.ReasonPodsStarting)
	}
}

func message(db *databasev1.Database) string {
	for _, c := range db.Status.Conditions {
		if c.Type == databasev1.ConditionReady {
			return c.Message
		}
	}
	return ""
}

// TestUnreadable: objects that the API server let in before the rules were what they are stop nobody else.
func TestUnreadable(t *testing.T) {
	w := newWorld(t)
	bad := map[string]fields{
		"worded":  {"databaseName": "mydb", "username": "admin", "replicas": int64(1), "parameters": "three", "storage": fields{"size": "1Gi"}},
		"listed":  {"databaseName": []any{"mydb"}, "username": "admin", "replicas": int64(1), "storage": "1Gi"},
		"spaced":  {"databaseName": "mydb", "username": "admin", "replicas": int64(1), "storage": fields{"size": "10 GB"}},
		"minus":   {"databaseName": "mydb", "username": "admin", "replicas": int64(1), "storage": fields{"size": "-1Gi"}},
		"sizless": {"databaseName": "mydb", "username": "admin", "replicas": int64(1)},
	}
	w.withoutRules(func() {
		for name, spec := range bad {
			u := untyped(w.namespace, name, spec)
			var err error
			w.eventually("the API server takes "+name, func() bool {
				err = w.Create(t.Context(), u.DeepCopy())
				return err == nil
			}, func() any { return err })
		}
	})
	w.start()
	w.create("good")
	w.condition("good", databasev1.ConditionReady, databasev1.ReasonPodsStarting)
	for name := range bad {
		u := untyped(w.namespace, name, nil)
		w.eventually(name+" is InvalidSpec", func() bool {
			if name == "worded" || name == "listed" { // the API server takes no status of such an object
				return w.hasEvent(name, databasev1.ReasonInvalidSpec)
			}
			w.get(name, u)
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			for _, c := range conditions {
				if c := c.(fields); c["type"] == "Ready" && c["reason"] == databasev1.ReasonInvalidSpec {
					return true
				}
			}
			return false
		}, func() any { return u.Object }, func() any { return w.log.String() })
	}
	w.quiet("good", 1)
	w.writes.take()
	time.Sleep(2 * time.Second)
	if all := w.writes.take(); len(all) > 0 {
		t.Errorf("what can't be mended costs the writes %q", all)
	}
	for name := range bad {
		u := untyped(w.namespace, name, nil)
		if err := w.Delete(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		w.eventually(name+" is gone", func() bool { return apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(u), u)) })
	}
	if strings.Contains(w.log.String(), "panic") {
		t.Error("something panicked")
	}
}

// hasEvent reports a Warning about the object.
func (w *world) hasEvent(name, reason string) bool {
	w.Helper()
	var all eventsv1.EventList
	if err := w.List(w.Context(), &all, client.InNamespace(w.namespace)); err != nil {
		w.Fatal(err)
	}
	return slices.ContainsFunc(all.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning
	})
}

type fields = map[string]any

func untyped(namespace, name string, spec fields) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields{}}
	if spec != nil {
		u.Object["spec"] = spec
	}
	u.SetGroupVersionKind(databasev1.GroupVersion.WithKind(databasev1.DatabaseKind))
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// withoutRules lets the API server store anything as a Database while f runs.
func (w *world) withoutRules(f func()) {
	w.Helper()
	scheme := w.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		w.Fatal(err)
	}
	c, err := client.New(testenv.Get(w).Config, client.Options{Scheme: scheme})
	if err != nil {
		w.Fatal(err)
	}
	set := func(schema *apiextensionsv1.JSONSchemaProps) (before *apiextensionsv1.JSONSchemaProps) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(w.Context(), client.ObjectKey{Name: "databases.database.example.com"}, crd); err != nil {
			w.Fatal(err)
		}
		before = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = schema
		if err := c.Update(w.Context(), crd); err != nil {
			w.Fatal(err)
		}
		return before
	}
	rules := set(&apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)})
	f()
	set(rules)
	w.eventually("the rules hold again", func() bool {
		return apierrors.IsInvalid(w.Create(w.Context(), untyped(w.namespace, "probe", fields{"replicas": "x"}), client.DryRunAll))
	})
}
