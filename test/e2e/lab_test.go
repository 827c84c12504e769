//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// TestLab is the way of the lab: apply, watch, look at the children, log in, apply again, patch, delete.
func TestLab(t *testing.T) {
	w := newWorld(t)
	w.start()
	phases := w.watchPhases()
	if output, err := w.tryKubectl(manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	w.eventually("kstatus sees that it isn't ready yet", func() bool { return w.kstatus("my-database") == kstatus.InProgressStatus })
	w.kubectl("wait", "--for=condition=Ready", "database/my-database", "--timeout=3m")
	if got := w.kstatus("my-database"); got != kstatus.CurrentStatus {
		t.Errorf("when it is Ready, kstatus is %s", got)
	}
	if seen := phases(); seen != "Pending Creating Ready" {
		t.Errorf("phases %q", seen)
	}
	if got := w.kubectl("get", "database", "my-database", "--no-headers"); !strings.HasPrefix(strings.Join(strings.Fields(got), " "), "my-database Ready 1 true ") {
		t.Errorf("kubectl get database prints %q", got)
	}
	w.kubectl("get", "statefulset", "my-database")
	w.kubectl("get", "service", "my-database")
	if password := w.kubectl("get", "secret", "my-database-credentials", "-o", "go-template={{.data.password | base64decode}}"); len(password) < 20 {
		t.Errorf("the password has %d characters", len(password))
	}
	if got := w.sql("my-database", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);",
		"SELECT current_user, current_database(), rolsuper, count(*) FROM t, pg_roles WHERE rolname = current_user GROUP BY 1, 2, 3;"); got != "admin|mydb|f|1" {
		t.Errorf("psql prints %q", got)
	}

	set := &appsv1.StatefulSet{}
	w.get("my-database", set)
	before, pods := set.Generation, w.pods("my-database")
	for range 3 {
		if output, err := w.tryKubectl(manifest, "apply", "-f", "-"); err != nil || !strings.Contains(output, "unchanged") {
			t.Errorf("applying again: %v: %s", err, output)
		}
		time.Sleep(time.Second)
	}
	w.get("my-database", set)
	if set.Generation != before || !same(pods, w.pods("my-database")) {
		t.Errorf("applying the same again changed the StatefulSet from generation %d to %d", before, set.Generation)
	}

	w.kubectl("patch", "database", "my-database", "--type", "merge", "-p", `{"spec":{"replicas":2}}`)
	w.eventually("the StatefulSet has two replicas", func() bool {
		return w.kubectl("get", "statefulset", "my-database", "-o", "jsonpath={.spec.replicas}") == "2"
	})
	w.ready("my-database")
	if got := w.sql("my-database", "SELECT count(*) FROM t;"); got != "1" {
		t.Errorf("after scaling, psql prints %q", got)
	}

	w.kubectl("delete", "database", "my-database")
	w.gone("my-database", &appsv1.StatefulSet{})
	w.gone("my-database", &corev1.Service{})
	w.gone("my-database-credentials", &corev1.Secret{})
	w.gone("my-database-leader", &corev1.ConfigMap{})
	w.get("data-my-database-0", &corev1.PersistentVolumeClaim{}) // deletionPolicy Retain
}

// kstatus is how tools that wait for any object see the Database.
func (w *world) kstatus(name string) kstatus.Status {
	w.Helper()
	db := &unstructured.Unstructured{}
	db.SetGroupVersionKind(databasev1.GroupVersion.WithKind(databasev1.DatabaseKind))
	w.get(name, db)
	result, err := kstatus.Compute(db)
	if err != nil {
		w.Fatal(err)
	}
	return result.Status
}

// watchPhases notes the phases that the Database goes through, as a watch shows them.
func (w *world) watchPhases() func() string {
	w.Helper()
	c, err := client.NewWithWatch(testenv.Get(w).Config, client.Options{Scheme: scheme})
	if err != nil {
		w.Fatal(err)
	}
	watch, err := c.Watch(w.Context(), &databasev1.DatabaseList{}, client.InNamespace(w.namespace))
	if err != nil {
		w.Fatal(err)
	}
	var seen []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			db, ok := event.Object.(*databasev1.Database)
			if !ok {
				continue
			}
			if phase := string(db.Status.Phase); phase != "" && (len(seen) == 0 || seen[len(seen)-1] != phase) {
				seen = append(seen, phase)
			}
		}
	}()
	return func() string {
		time.Sleep(500 * time.Millisecond) // for the last event
		watch.Stop()
		<-done
		return strings.Join(seen, " ")
	}
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		if b[name] != value {
			return false
		}
	}
	return true
}

// TestKeptVolumes: a Database of the same name finds its rows, with a new password.
func TestKeptVolumes(t *testing.T) {
	w := newWorld(t)
	w.start()
	db := w.create("kept")
	w.ready("kept")
	w.sql("kept", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (42);")
	old := string(w.secret("kept").Data["uri"])
	if err := w.Delete(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	w.gone("kept", &databasev1.Database{})
	w.create("kept", func(db *databasev1.Database) { db.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
	w.ready("kept")
	if got := w.sql("kept", "SELECT i FROM t;"); got != "42" {
		t.Errorf("psql prints %q", got)
	}
	if output, err := w.psql(old, "SELECT 1;"); err == nil || !strings.Contains(output, "password authentication failed") {
		t.Errorf("the old password: %v: %s", err, output)
	}
	// With deletionPolicy Delete the volume goes too.
	claim := &corev1.PersistentVolumeClaim{}
	w.get("data-kept-0", claim)
	db = &databasev1.Database{}
	w.get("kept", db)
	if err := w.Delete(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	w.gone("data-kept-0", claim)
	w.eventually("the volume is deleted", func() bool {
		_, err := w.tryKubectl("", "get", "pv", claim.Spec.VolumeName)
		return err != nil
	})
}
