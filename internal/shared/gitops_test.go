package shared_test

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/testenv"
)

// TestGitOps: what Flux, Argo CD and kubectl wait do with a Database.
func TestGitOps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	wish := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"name": w.name("orders")}}}
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.DatabaseKind))
		u.SetNamespace(w.namespace)
		u.SetName("orders")
		return u
	}
	for range 2 {
		if err := w.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(wish()), client.FieldOwner("flux")); err != nil {
			t.Fatal(err)
		}
		w.ready("orders")
	}
	u := wish()
	w.get("orders", u)
	result, err := status.Compute(u)
	if err != nil || result.Status != status.CurrentStatus {
		t.Errorf("kstatus: %+v, %v", result, err)
	}
	for _, entry := range u.GetManagedFields() {
		if entry.Manager != "flux" && strings.Contains(entry.FieldsV1.GetRawString(), "f:spec") {
			t.Errorf("%s owns fields of spec: %s", entry.Manager, entry.FieldsV1.GetRawString())
		}
	}
	generation := u.GetGeneration()
	w.touch("orders", "now")
	w.settle()
	w.get("orders", u)
	if u.GetGeneration() != generation {
		t.Error("the generation changed")
	}

	kubectl := func(args ...string) string {
		args = append([]string{"--kubeconfig", testenv.Get(t).Kubeconfig, "-n", w.namespace}, args...)
		out, err := exec.CommandContext(t.Context(), "kubectl", args...).CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %s: %v", args, err)
		}
		return string(out)
	}
	kubectl("wait", "--for=condition=Ready", "pgdb/orders", "--timeout=60s")
	fields := strings.Fields(kubectl("get", "pgdb"))
	want := []string{"NAME", "READY", "REASON", "DATABASE", "SECRET", "AGE", "orders", "True", "Provisioned", w.name("orders"), "orders-postgres"}
	if len(fields) < len(want) || strings.Join(fields[:len(want)], " ") != strings.Join(want, " ") {
		t.Errorf("kubectl get pgdb: %q, want %q", fields, want)
	}
	if out := kubectl("get", "databases-all"); !strings.Contains(out, "orders") {
		t.Errorf("kubectl get databases-all: %s", out)
	}

	// While it isn't ready, tools must see that too.
	conflict := wish()
	conflict.SetName("second")
	if err := w.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(conflict), client.FieldOwner("flux")); err != nil {
		t.Fatal(err)
	}
	w.wait("second", v1alpha1.ReasonNameConflict)
	w.get("second", u)
	if result, err := status.Compute(u); err != nil || result.Status == status.CurrentStatus {
		t.Errorf("kstatus of a refused Database: %+v, %v", result, err)
	}
}
