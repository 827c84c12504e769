package v1_test

import (
	"maps"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

func TestMain(m *testing.M) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(databasev1.AddToScheme(scheme))
	os.Exit(testenv.Main(m, testenv.WithScheme(scheme), testenv.WithComponents("etcd", "kube-apiserver")))
}

type fields = map[string]any

// lab is the least spec: what the kind has had from its beginning.
func lab(change fields) fields {
	spec := fields{"image": "postgres:15", "replicas": int64(1), "databaseName": "mydb", "username": "admin", "storage": fields{"size": "10Gi"}}
	maps.Copy(spec, change)
	for name, value := range spec {
		if value == nil {
			delete(spec, name)
		}
	}
	return spec
}

func database(namespace, name string, spec fields) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields{"spec": spec}}
	u.SetGroupVersionKind(databasev1.GroupVersion.WithKind(databasev1.DatabaseKind))
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func TestGood(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	for what, change := range map[string]fields{
		"the lab's":          nil,
		"ten replicas":       {"replicas": int64(10)},
		"a registry's image": {"image": "registry.example.com:5000/team/postgres:17.6@sha256:" + strings.Repeat("0", 64)},
		"names":              {"databaseName": "My-App", "username": "_a"},
		"a size in Mi":       {"storage": fields{"size": "500Mi", "storageClass": "fast"}},
		"parameters":         {"parameters": fields{"work_mem": "16MB", "pg_stat_statements.max": "1000", "search_path": `"$user", public`}},
		"placement": {
			"nodeSelector":              fields{"disk": "ssd"},
			"tolerations":               []any{fields{"key": "db", "operator": "Exists"}},
			"topologySpreadConstraints": []any{fields{"maxSkew": int64(1), "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}},
			"imagePullSecrets":          []any{fields{"name": "registry"}},
			"affinity":                  fields{"nodeAffinity": fields{}},
			"resources":                 fields{"requests": fields{"cpu": "100m", "memory": "256Mi"}, "limits": fields{"memory": "1Gi"}},
		},
		"the rest": {"deletionPolicy": "Delete", "durability": "Async"},
	} {
		if err := c.Create(t.Context(), database(namespace, "good", lab(change)), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"a", "my-database-2", strings.Repeat("x", 52)} {
		if err := c.Create(t.Context(), database(namespace, name, lab(nil)), client.DryRunAll); err != nil {
			t.Errorf("metadata.name %q: %v", name, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := testenv.Get(t).Client()
	db := &databasev1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace(t, c), Name: "defaults"},
		Spec:       databasev1.DatabaseSpec{DatabaseName: "mydb", Username: "admin", Storage: databasev1.Storage{Size: "1Gi"}},
	}
	if err := c.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if s := db.Spec; s.Image != "postgres:14" || s.Replicas != 1 || s.DeletionPolicy != databasev1.DeletionPolicyRetain || s.Durability != databasev1.DurabilitySync {
		t.Errorf("the defaults are %+v", s)
	}
}

const (
	form     = "must begin with a letter or '_' and go on with letters, digits, '_' and '-' (ASCII)"
	taken    = "is reserved by PostgreSQL, by a cloud provider or for replication; choose another name"
	pgPrefix = "must not begin with 'pg_', which PostgreSQL reserves"
	size     = "must be a whole number of Mi or Gi, as 500Mi or 10Gi"
	owned    = "has a parameter that the controller sets itself, or that would lose data; see docs/server.md"
	metaName = "metadata.name must begin with a letter, go on with lower-case letters, digits and '-', and have at most 52 characters, so that the names of its pods and Services fit"
)

func TestBad(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	for _, bad := range []struct {
		change fields
		want   string
	}{
		{fields{"databaseName": nil}, "spec.databaseName: Required value"},
		{fields{"username": nil}, "spec.username: Required value"},
		{fields{"storage": nil}, "spec.storage: Required value"},
		{fields{"storage": fields{}}, "spec.storage.size: Required value"},
		{fields{"storage": fields{"size": "10 GB"}}, `spec.storage.size: Invalid value: "10 GB": ` + size},
		{fields{"storage": fields{"size": "10G"}}, `spec.storage.size: Invalid value: "10G": ` + size},
		{fields{"storage": fields{"size": "0Gi"}}, `spec.storage.size: Invalid value: "0Gi": ` + size},
		{fields{"storage": fields{"size": "-1Gi"}}, `spec.storage.size: Invalid value: "-1Gi": ` + size},
		{fields{"storage": fields{"size": "1.5Gi"}}, `spec.storage.size: Invalid value: "1.5Gi": ` + size},
		{fields{"storage": fields{"size": "12345678901Gi"}}, "spec.storage.size: Too long: may not be more than 10 bytes"},
		{fields{"storage": fields{"size": "1Gi", "storageClass": ""}}, "spec.storage.storageClass: Invalid value"},
		{fields{"image": ""}, "spec.image: Invalid value"},
		{fields{"image": "postgres 15"}, `spec.image: Invalid value: "postgres 15": must be an image reference, as postgres:17`},
		{fields{"image": "postgres:"}, `spec.image: Invalid value: "postgres:": must be an image reference, as postgres:17`},
		{fields{"replicas": int64(0)}, "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"},
		{fields{"replicas": int64(11)}, "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"},
		{fields{"replicas": "three"}, "spec.replicas: Invalid value"},
		{fields{"deletionPolicy": "Destroy"}, `spec.deletionPolicy: Unsupported value: "Destroy": supported values: "Retain", "Delete"`},
		{fields{"durability": "sync"}, `spec.durability: Unsupported value: "sync": supported values: "Sync", "Async"`},
		{fields{"parameters": fields{}}, "spec.parameters: Invalid value"},
		{fields{"parameters": fields{"Work_Mem": "1"}}, "a parameter's name has lower-case letters, digits and '_', and may have one '.'; at most 63 characters"},
		{fields{"parameters": fields{"work_mem": "1\n2"}}, "spec.parameters[work_mem]: Invalid value: \"1\\n2\": must be one line"},
		{fields{"parameters": fields{"fsync": "off"}}, owned},
		{fields{"parameters": fields{"listen_addresses": "*"}}, owned},
		{fields{"parameters": fields{"archive_command": "true"}}, owned},
		{fields{"tolerations": []any{}}, "spec.tolerations: Invalid value"},
		{fields{"resources": fields{"limits": fields{"memory": "lots"}}}, "spec.resources.limits.memory: Invalid value"},
	} {
		wantInvalid(t, c.Create(t.Context(), database(namespace, "bad", lab(bad.change)), client.DryRunAll), bad.want)
	}
	for _, name := range []string{"1a", "a.b", "a-", strings.Repeat("x", 53)} {
		wantInvalid(t, c.Create(t.Context(), database(namespace, name, lab(nil)), client.DryRunAll), metaName)
	}
}

func TestNames(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	for _, field := range []string{"databaseName", "username"} {
		for name, want := range map[string]string{
			"": "in body should be at least 1 chars long", strings.Repeat("x", 64): "Too long: may not be more than 63 bytes",
			"1a": form, "-a": form, "a b": form, `a";b`: form, "a'b": form, "ä": form, "a\n": form,
			"pg_a": pgPrefix, "postgres": taken, "replicator": taken, "template1": taken, "public": taken, "none": taken, "rdsadmin": taken,
		} {
			wantInvalid(t, c.Create(t.Context(), database(namespace, "bad", lab(fields{field: name})), client.DryRunAll), "spec."+field)
			wantInvalid(t, c.Create(t.Context(), database(namespace, "bad", lab(fields{field: name})), client.DryRunAll), want)
		}
	}
}

func TestImmutableAndMutable(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	const renamed = "can't be changed: make another Database with the new name and copy the data"
	const moved = "storageClass can't be changed: make another Database and copy the data"
	for _, s := range []fields{{"size": "1Gi"}, {"size": "1Gi", "storageClass": "fast"}} {
		name := map[bool]string{true: "classed", false: "plain"}[s["storageClass"] != nil]
		db := database(namespace, name, lab(fields{"storage": s}))
		if err := c.Create(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		for want, change := range map[string]fields{
			`spec.databaseName: Invalid value: "other": ` + renamed: {"databaseName": "other"},
			`spec.username: Invalid value: "other": ` + renamed:     {"username": "other"},
			moved: {"storage": fields{"size": "1Gi", "storageClass": "slow"}},
		} {
			changed := db.DeepCopy()
			maps.Copy(changed.Object["spec"].(fields), change)
			wantInvalid(t, c.Update(t.Context(), changed), want)
		}
		if name == "classed" {
			removed := db.DeepCopy()
			removed.Object["spec"].(fields)["storage"] = fields{"size": "1Gi"}
			wantInvalid(t, c.Update(t.Context(), removed), moved)
		}
		maps.Copy(db.Object["spec"].(fields), fields{"image": "postgres:16", "replicas": int64(3), "deletionPolicy": "Delete", "durability": "Async"})
		db.Object["spec"].(fields)["storage"].(fields)["size"] = "512Mi" // the controller says that it can't shrink
		if err := c.Update(t.Context(), db); err != nil {
			t.Errorf("changing what may change: %v", err)
		}
	}
}

func TestScale(t *testing.T) {
	c := testenv.Get(t).Client()
	db := database(testenv.Namespace(t, c), "scaled", lab(nil))
	if err := c.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	scale := &unstructured.Unstructured{Object: fields{"spec": fields{"replicas": int64(3)}}}
	scale.SetGroupVersionKind(scaleKind)
	scale.SetName(db.GetName())
	scale.SetNamespace(db.GetNamespace())
	if err := c.SubResource("scale").Update(t.Context(), db, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(db), db); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(db.Object, "spec", "replicas"); n != 3 {
		t.Errorf("after scaling to 3 there are %d replicas", n)
	}
}

var scaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

func wantInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v\nwant one with %s", err, want)
	}
}
