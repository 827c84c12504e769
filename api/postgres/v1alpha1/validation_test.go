package v1alpha1_test

import (
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/testenv"
)

func TestMain(m *testing.M) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	os.Exit(testenv.Main(m, testenv.WithScheme(scheme), testenv.WithComponents("etcd", "kube-apiserver")))
}

func database(namespace, name, specName string) *v1alpha1.Database {
	return &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DatabaseSpec{Name: specName},
	}
}

const (
	form     = "must begin with a letter or '_' and go on with letters, digits, '_' and '-' (ASCII)"
	taken    = "is reserved by PostgreSQL or by a cloud provider; choose another name"
	pgPrefix = "must not begin with 'pg_', which PostgreSQL reserves for its own roles"
)

func TestSpecName(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	for _, name := range []string{"orders", "My-App", "select", "_", "a-", "_1", strings.Repeat("x", 63), "Postgres", "pgx", "template2"} {
		if err := c.Create(t.Context(), database(namespace, "good", name), client.DryRunAll); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		strings.Repeat("x", 64): `spec.name: Too long: may not be more than 63 bytes`,
		"1orders":               `spec.name: Invalid value: "1orders": ` + form,
		"-orders":               `spec.name: Invalid value: "-orders": ` + form,
		"or ders":               `spec.name: Invalid value: "or ders": ` + form,
		`o"; DROP`:              `spec.name: Invalid value: "o\"; DROP": ` + form,
		"o'rders":               `spec.name: Invalid value: "o'rders": ` + form,
		"bücher":                `spec.name: Invalid value: "bücher": ` + form,
		"orders\n":              `spec.name: Invalid value: "orders\n": ` + form,
		"pg_orders":             `spec.name: Invalid value: "pg_orders": ` + pgPrefix,
		"postgres":              `spec.name: Invalid value: "postgres": ` + taken,
		"template0":             `spec.name: Invalid value: "template0": ` + taken,
		"template1":             `spec.name: Invalid value: "template1": ` + taken,
		"public":                `spec.name: Invalid value: "public": ` + taken,
		"none":                  `spec.name: Invalid value: "none": ` + taken,
		"rdsadmin":              `spec.name: Invalid value: "rdsadmin": ` + taken,
		"cloudsqladmin":         `spec.name: Invalid value: "cloudsqladmin": ` + taken,
		"azure_maintenance":     `spec.name: Invalid value: "azure_maintenance": ` + taken,
		"azure_sys":             `spec.name: Invalid value: "azure_sys": ` + taken,
	} {
		wantInvalid(t, c.Create(t.Context(), database(namespace, "bad", name), client.DryRunAll), want)
	}
}

// TestWhatGoCantSay sends what the Go types can't say.
func TestWhatGoCantSay(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	for want, spec := range map[string]any{
		"spec: Required value":      nil,
		"spec.name: Required value": map[string]any{},
		`spec.name: Invalid value: "": spec.name in body should be at least 1 chars long`:                           map[string]any{"name": ""},
		"spec.connectionLimit: Invalid value: 0: spec.connectionLimit in body should be greater than or equal to 1": map[string]any{"name": "orders", "connectionLimit": int64(0)},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.DatabaseKind))
		object.SetNamespace(namespace)
		object.SetName("bad")
		if spec != nil {
			object.Object["spec"] = spec
		}
		wantInvalid(t, c.Create(t.Context(), object, client.DryRunAll), want)
	}
}

func TestImmutableAndMutable(t *testing.T) {
	c := testenv.Get(t).Client()
	db := database(testenv.Namespace(t, c), "orders", "orders")
	if err := c.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if db.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
		t.Errorf("deletionPolicy defaults to %q", db.Spec.DeletionPolicy)
	}
	renamed := db.DeepCopy()
	renamed.Spec.Name = "others"
	wantInvalid(t, c.Update(t.Context(), renamed),
		`spec.name: Invalid value: "others": can't be changed: make another Database with the new name and copy the data`)
	db.Spec.DeletionPolicy, db.Spec.ConnectionLimit = v1alpha1.DeletionPolicyDelete, 5
	if err := c.Update(t.Context(), db); err != nil {
		t.Errorf("changing what may change: %v", err)
	}
}

func TestOtherFields(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	if err := c.Create(t.Context(), database(namespace, strings.Repeat("x", 244), "orders"), client.DryRunAll); err != nil {
		t.Errorf("a metadata.name of 244 characters is refused: %v", err)
	}
	wantInvalid(t, c.Create(t.Context(), database(namespace, strings.Repeat("x", 245), "orders"), client.DryRunAll),
		"metadata.name must have at most 244 characters, so that the name of its Secret, <metadata.name>-postgres, fits")
	policy := database(namespace, "bad", "orders")
	policy.Spec.DeletionPolicy = "Destroy"
	wantInvalid(t, c.Create(t.Context(), policy, client.DryRunAll),
		`spec.deletionPolicy: Unsupported value: "Destroy": supported values: "Retain", "Delete"`)
	for _, limit := range []int32{-1, 262144} {
		limited := database(namespace, "bad", "orders")
		limited.Spec.ConnectionLimit = limit
		wantInvalid(t, c.Create(t.Context(), limited, client.DryRunAll), "spec.connectionLimit: Invalid value")
	}
}

// TestServerRef: the server is chosen once, among names that a dedicated Database can have.
func TestServerRef(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	on := func(name, server string) *v1alpha1.Database {
		db := database(namespace, name, "orders")
		db.Spec.ServerRef.Name = server
		return db
	}
	const nameForm = `must begin with a small letter, go on with small letters, digits and '-', and end with a letter or digit`
	for _, server := range []string{"a", "my-database", "x9", strings.Repeat("x", 52)} {
		if err := c.Create(t.Context(), on("good", server), client.DryRunAll); err != nil {
			t.Errorf("%q is refused: %v", server, err)
		}
	}
	for server, want := range map[string]string{
		strings.Repeat("x", 53): "spec.serverRef.name: Too long: may not be more than 52 bytes",
		"9x":                    nameForm, "x-": nameForm, "-x": nameForm, "My": nameForm, "a.b": nameForm, "other/x": nameForm, "x\n": nameForm,
	} {
		wantInvalid(t, c.Create(t.Context(), on("bad", server), client.DryRunAll), want)
	}
	empty := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"name": "orders", "serverRef": map[string]any{}}}}
	empty.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.DatabaseKind))
	empty.SetNamespace(namespace)
	empty.SetName("bad")
	wantInvalid(t, c.Create(t.Context(), empty, client.DryRunAll), "spec.serverRef.name: Required value")

	const fixed = "spec: Invalid value: serverRef can't be added, changed or removed: make another Database and copy the data"
	with, without := on("with", "my-database"), on("without", "")
	for _, db := range []*v1alpha1.Database{with, without} {
		if err := c.Create(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range []struct {
		db     *v1alpha1.Database
		server string
	}{{with, "other"}, {with, ""}, {without, "my-database"}} {
		changed := change.db.DeepCopy()
		changed.Spec.ServerRef.Name = change.server
		wantInvalid(t, c.Update(t.Context(), changed), fixed)
	}
	with.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	if err := c.Update(t.Context(), with); err != nil {
		t.Errorf("changing something else: %v", err)
	}
}

func wantInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v\nwant one with %s", err, want)
	}
}
