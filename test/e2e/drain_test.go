//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// nodeOf is the node of a pod, empty while it has none.
func (w *world) nodeOf(pod string) string {
	w.Helper()
	var p corev1.Pod
	w.get(pod, &p)
	return p.Spec.NodeName
}

// pair makes a Database with two members and returns the nodes of its primary and of its standby, which must be two. The pod
// that the case asks from is on the standby's, so that it outlives the primary's.
func (w *world) pair(name string) (primary, primaryNode, standbyNode string) {
	w.Helper()
	w.create(name, sized("400Mi"), func(db *databasev1.Database) { db.Spec.Replicas = 2 })
	primary = w.settled(name).Status.Primary
	standby := name + "-0"
	if primary == standby {
		standby = name + "-1"
	}
	primaryNode, standbyNode = w.nodeOf(primary), w.nodeOf(standby)
	if primaryNode == standbyNode {
		w.Fatalf("both members are on %s", primaryNode)
	}
	w.eventually("the standby is synchronous", func() bool { // before that it may not take over
		var store corev1.ConfigMap
		w.get(name+"-sync", &store)
		return store.Annotations["sync_standby"] == standby
	}, func() string { return w.kubectl("get", "configmap", name+"-sync", "-o", "yaml") })
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "client"},
		Spec: corev1.PodSpec{NodeName: standbyNode, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{
			Name: "psql", Image: "postgres:15", Command: []string{"sleep", "infinity"},
		}}},
	}
	if err := w.Create(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
	return primary, primaryNode, standbyNode
}

// drain empties a node as an administrator does. It is open for pods again when the case ends.
func (w *world) drain(node string, arguments ...string) (string, error) {
	w.Helper()
	w.Cleanup(func() { w.uncordon(node) })
	line := append([]string{"drain", node, "--ignore-daemonsets", "--delete-emptydir-data"}, arguments...)
	return w.tryKubectl("", line...)
}

func (w *world) uncordon(node string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, kubectl, "uncordon", node)
	command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig)
	if output, err := command.CombinedOutput(); err != nil {
		w.Errorf("kubectl uncordon %s: %v\n%s", node, err, output)
	}
}

// bothReady waits until two members serve.
func (w *world) bothReady(name string) *databasev1.Database {
	w.Helper()
	db := &databasev1.Database{}
	w.eventually("both members of "+name+" serve", func() bool {
		w.get(name, db)
		return db.Status.ReadyReplicas == 2
	}, func() string { return w.kubectl("get", "pods,pvc,events", "-o", "wide") })
	return w.settled(name)
}

// TestDrain drains the primary's node. Its pod can't go anywhere else, as its volume is there, but the other member takes over,
// and that one is kept until the first is back.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.start()
	primary, node, other := w.pair("drained")
	w.sql("drained", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);")
	if output, err := w.drain(node, "--timeout=3m"); err != nil {
		t.Fatalf("the drain of the primary's node: %v\n%s", err, output)
	}
	db := &databasev1.Database{}
	w.eventually("another member is the primary", func() bool {
		w.get("drained", db)
		return db.Status.Primary != "" && db.Status.Primary != primary
	}, func() string { return w.kubectl("get", "pods", "-o", "wide") })
	w.eventually("writes work", func() bool {
		_, err := w.trySQL("drained", "INSERT INTO t VALUES (2);")
		return err == nil
	})
	output, err := w.drain(other, "--timeout=5s", "--pod-selector=database=drained")
	if err == nil || !strings.Contains(output, "disruption budget") {
		t.Errorf("the only member that serves is evicted: %v\n%s", err, output)
	}
	w.uncordon(other)
	w.uncordon(node)
	if db := w.bothReady("drained"); db.Status.Primary == primary {
		t.Errorf("%s is the primary again, for no reason", primary)
	}
	if got := w.sql("drained", "SELECT string_agg(DISTINCT i::text, ' ' ORDER BY i::text) FROM t;"); got != "1 2" {
		t.Errorf("the rows are %q", got)
	}
}

// TestDrainOfOne: a Database with one member blocks no drain; it serves again where its volume is.
func TestDrainOfOne(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("single", sized("400Mi"))
	w.ready("single")
	w.sql("single", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);")
	w.kubectl("delete", "pod", "client", "--wait")
	node := w.nodeOf("single-0")
	if output, err := w.drain(node, "--timeout=3m"); err != nil {
		t.Fatalf("the drain: %v\n%s", err, output)
	}
	w.uncordon(node)
	w.settled("single")
	if got := w.sql("single", "SELECT count(*) FROM t;"); got != "1" {
		t.Errorf("there are %s rows", got)
	}
}

// writer inserts rows from the client's pod, one a connection, and notes those that were acknowledged.
type writer struct {
	w       *world
	command *exec.Cmd
	acked   buffer
}

func (w *world) startWriter(name string) *writer {
	w.Helper()
	// An answer that never comes must not hold it for ever.
	const loop = `read -r uri; until [ -e /tmp/stop ]; do i=$((i+1))
psql --no-psqlrc -q -v ON_ERROR_STOP=1 -c "INSERT INTO t VALUES ($i)" "$uri&connect_timeout=3&tcp_user_timeout=5000" >/dev/null 2>&1 && echo $i
sleep 0.1; done`
	r := &writer{w: w, command: exec.CommandContext(w.Context(), kubectl, "exec", "-i", "client", "--namespace", w.namespace, "--", "sh", "-c", loop)}
	r.command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig)
	r.command.Stdin = strings.NewReader(string(w.secret(name).Data["uri"]) + "\n")
	r.command.Stdout = &r.acked
	if err := r.command.Start(); err != nil {
		w.Fatal(err)
	}
	return r
}

func (r *writer) rows() []string { return strings.Fields(r.acked.String()) }

// more waits until so many more rows are acknowledged.
func (r *writer) more(n int) {
	r.w.Helper()
	before := len(r.rows())
	r.w.eventually("writes work", func() bool { return len(r.rows()) >= before+n },
		func() string { return r.w.kubectl("get", "pods,endpointslices", "-o", "wide") })
}

// stop ends it and returns all that was acknowledged.
func (r *writer) stop() []string {
	r.w.Helper()
	r.w.kubectl("exec", "client", "--", "touch", "/tmp/stop")
	if err := r.command.Wait(); err != nil {
		r.w.Errorf("the writer: %v", err)
	}
	return r.rows()
}

// TestNodeLoss cuts the primary's node off while somebody writes: the other member takes over, and what was acknowledged is
// there when the node is back.
func TestNodeLoss(t *testing.T) {
	w := newWorld(t)
	w.start()
	primary, name, _ := w.pair("lost")
	w.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=2m")
	w.sql("lost", "CREATE TABLE t (i int);")
	node := testenv.Get(w).Node(name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), time.Minute)
		defer cancel()
		if err := node.Join(ctx); err != nil {
			t.Error(err)
		}
	})
	writer := w.startWriter("lost")
	writer.more(20)
	if err := node.Cut(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := &databasev1.Database{}
	w.eventually("another member is the primary", func() bool {
		w.get("lost", db)
		return db.Status.Primary != "" && db.Status.Primary != primary
	}, func() string { return w.kubectl("get", "pods", "-o", "wide") })
	writer.more(20)
	if err := node.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.bothReady("lost")
	acked := writer.stop()
	there := map[string]bool{}
	for _, row := range strings.Fields(w.sql("lost", "SELECT i FROM t;")) {
		there[row] = true
	}
	for _, row := range acked {
		if !there[row] {
			t.Errorf("row %s was acknowledged and is lost", row)
		}
	}
}
