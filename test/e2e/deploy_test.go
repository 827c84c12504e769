//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// TestDeploy runs the program in the cluster, with the rights that its manifests give it, and takes it away again.
func TestDeploy(t *testing.T) {
	w := newWorld(t)
	script := func(name string) (string, error) {
		command := exec.Command("../../deploy/" + name)
		command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(t).Kubeconfig, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		return string(output), err
	}
	if output, err := script("deploy.sh"); err != nil {
		t.Fatalf("%v: %s", err, output)
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
	if output, err := script("undeploy.sh"); err == nil || !strings.Contains(output, w.namespace+"/inside") {
		t.Errorf("undeploy while there is a Database: %v: %s", err, output)
	}
	w.kubectl("delete", "pgserver", "inside", "--timeout=1m")
	if denied := w.denied(mark, "system:serviceaccount:databases:databases"); len(denied) > 0 {
		t.Errorf("the program lacks rights: %q", denied)
	}
	if output, err := script("undeploy.sh"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	command := exec.Command(kubectl, "apply", "--server-side", "-f", "../../api/crds") // for the other cases
	command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(t).Kubeconfig)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	w.eventually("the kinds are served again", func() bool {
		return w.List(t.Context(), &databasev1.DatabaseList{}) == nil
	})
}
