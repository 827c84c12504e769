//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// TestDeploy runs the program in the cluster, with the rights that its manifests give it, and takes it away again.
func TestDeploy(t *testing.T) {
	w := newWorld(t)
	if output, err := w.script("deploy.sh"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if ready := w.kubectl("get", "deployment", "databases", "-n", deployNamespace, "-o", "jsonpath={.status.readyReplicas}"); ready != "2" {
		t.Errorf("%q replicas are ready after deploy.sh, want 2", ready)
	}
	if output, err := w.script("deploy.sh"); err != nil || strings.Contains(output, "created") {
		t.Errorf("deploying again: %v: %s", err, output)
	}
	mark := w.mark()
	w.create("inside", func(db *databasev1.Database) { db.Spec.Replicas = 2 })
	w.ready("inside")
	if got := w.sql("inside", "SELECT 1;"); got != "1" {
		t.Errorf("psql prints %q", got)
	}
	w.change("inside", func(db *databasev1.Database) {
		db.Spec.Replicas, db.Spec.Storage.Size, db.Spec.Image = 1, "2Gi", "postgres:15-next"
		db.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete
	})
	w.settled("inside")
	if output, err := w.script("undeploy.sh"); err == nil || !strings.Contains(output, w.namespace+"/inside") {
		t.Errorf("undeploy while there is a Database: %v: %s", err, output)
	}
	w.kubectl("delete", "pgserver", "inside", "--timeout=3m") // PostgreSQL has two minutes to stop
	if denied := w.denied(mark, "system:serviceaccount:databases:databases"); len(denied) > 0 {
		t.Errorf("the program lacks rights: %q", denied)
	}
	if output, err := w.script("undeploy.sh"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	w.nothingLeft()
	command := exec.Command(kubectl, "apply", "--server-side", "-f", "../../api/crds") // for the other cases
	command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(t).Kubeconfig)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	w.eventually("the kinds are served again", func() bool {
		return w.List(t.Context(), &databasev1.DatabaseList{}) == nil
	})
}

// nothingLeft looks for what carries our label, in the whole cluster.
func (w *world) nothingLeft() {
	w.Helper()
	const kinds = "deployments,pods,configmaps,secrets,serviceaccounts,roles,rolebindings,leases,poddisruptionbudgets,networkpolicies,clusterroles,clusterrolebindings,namespaces"
	for _, scope := range [][]string{{"-A", "-l", "app.kubernetes.io/part-of=databases"}, {"-n", deployNamespace}} {
		left := w.kubectl(append([]string{"get", kinds, "-o", "name", "--ignore-not-found"}, scope...)...)
		for line := range strings.Lines(left) {
			// Kubernetes' own, in a namespace that is still going, and what is in no namespace, which the first round looks at.
			own := []string{"configmap/kube-root-ca.crt", "serviceaccount/default"}
			if line = strings.TrimSpace(line); !slices.Contains(own, line) && (scope[0] == "-A" || !strings.Contains(line, "cluster") && !strings.HasPrefix(line, "namespace/")) {
				w.Errorf("undeploy left %s", line)
			}
		}
	}
}

// TestChart installs the Helm chart with the images built here, changes a setting, and takes it away again.
func TestChart(t *testing.T) {
	w := newWorld(t)
	helm := filepath.Join(t.TempDir(), "helm")
	build := exec.Command("go", "build", "-C", "../../dev/chart", "-o", helm, "helm.sh/helm/v4/cmd/helm")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building helm: %v: %s", err, output)
	}
	run := func(values string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), helm, append(arguments, "--namespace", deployNamespace, "--kubeconfig", testenv.Get(t).Kubeconfig)...)
		command.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
		if values != "" {
			command.Args = append(command.Args, "--values", "-", "--wait", "--timeout", "3m")
			command.Stdin = strings.NewReader(values)
		}
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("helm %s: %v: %s\n%s", arguments[0], err, output, w.kubectl("get", "pods,events", "-n", deployNamespace))
		}
	}
	w.kubectl("create", "namespace", deployNamespace)
	w.kubectl("label", "namespace", deployNamespace, "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(w.cleanShared)
	w.putSecret("databases-admin", "dsn", w.sharedServer("a-password-of-the-test"))
	// The kinds are there already, for the other cases.
	values := "{crds: {install: false}, sharedServer: {enabled: true, host: shared-postgres." + w.namespace + ".svc}, settings: {CONTROLLER_RESYNC: %s}}"
	mark := w.mark()
	run(fmt.Sprintf(values, "10m"), "install", "databases", "../../deploy/chart")
	w.works("orders")
	pods := w.kubectl("get", "pods", "-n", deployNamespace, "-l", "app.kubernetes.io/name=databases", "-o", "jsonpath={.items[*].metadata.name}")
	if n := len(strings.Fields(pods)); n != 2 {
		t.Errorf("%d replicas run, want 2: %s", n, pods)
	}
	run(fmt.Sprintf(values, "20m"), "upgrade", "databases", "../../deploy/chart")
	for _, pod := range strings.Fields(pods) {
		if now := w.kubectl("get", "pod", pod, "-n", deployNamespace, "-o", "jsonpath={.metadata.deletionTimestamp}", "--ignore-not-found"); now == "" &&
			w.kubectl("get", "pod", pod, "-n", deployNamespace, "-o", "name", "--ignore-not-found") != "" {
			t.Errorf("the pod %s still runs with the earlier settings", pod)
		}
	}
	w.works("after-upgrade")
	if denied := w.denied(mark, inPods); len(denied) > 0 {
		t.Errorf("the program lacks rights: %q", denied)
	}
	// In one namespace only, with rights in that one.
	done := w.changingRights()
	run(strings.Replace(fmt.Sprintf(values, "20m"), "{crds", "{watchNamespace: "+w.namespace+", crds", 1), "upgrade", "databases", "../../deploy/chart")
	if roles := w.kubectl("get", "clusterroles", "-o", "name", "-l", "app.kubernetes.io/part-of=databases"); roles != "" {
		t.Errorf("the program still has rights in the whole cluster: %s", roles)
	}
	w.eventually("the pods with the earlier rights are gone", func() bool {
		return len(strings.Fields(w.kubectl("get", "pods", "-n", deployNamespace, "-l", "app.kubernetes.io/name=databases", "-o", "name"))) == 2
	})
	done()
	mark = w.mark()
	w.works("in-its-namespace")
	if denied := w.denied(mark, inPods); len(denied) > 0 {
		t.Errorf("the program lacks rights in its one namespace: %q", denied)
	}
	w.rightsGone = w.mark()
	run("", "uninstall", "databases", "--wait")
	if n := len(w.sharedPasswords("")); n != 3 {
		t.Errorf("%d Databases are left after uninstalling, want 3", n)
	}
}
