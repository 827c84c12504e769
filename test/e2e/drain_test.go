//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
	"github.com/example/databases/test/faults"
)

// nodeOf is the node of a pod, empty while it has none.
func (w *world) nodeOf(pod string) string {
	w.Helper()
	var p corev1.Pod
	w.get(pod, &p)
	return p.Spec.NodeName
}

// pair is a Database with two members on two nodes.
type pair struct {
	runner                   *faults.Runner
	primary, standby         string
	primaryNode, standbyNode string
}

// newPair makes one. The application that writes is on the standby's node, so that it outlives the primary's.
func (w *world) newPair(name string) *pair {
	w.Helper()
	runner, err := w.newRunner(name)
	if err != nil {
		w.Fatal(err)
	}
	w.create(name, sized("400Mi"), replicas(2))
	p := &pair{runner: runner, primary: w.settled(name).Status.Primary, standby: name + "-0"}
	if p.primary == p.standby {
		p.standby = name + "-1"
	}
	p.primaryNode, p.standbyNode = w.nodeOf(p.primary), w.nodeOf(p.standby)
	if p.primaryNode == p.standbyNode {
		w.Fatalf("both members are on %s", p.primaryNode)
	}
	w.clientPodOn(p.standbyNode)
	return p
}

// moved waits until the other member is the primary.
func (w *world) moved(p *pair) {
	w.Helper()
	db := &databasev1.Database{}
	w.eventually("another member is the primary", func() bool {
		w.get(p.runner.Target.Name, db)
		return db.Status.Primary != "" && db.Status.Primary != p.primary
	}, func() string { return w.kubectl("get", "pods", "-o", "wide") })
}

// aloneFor is how long the member that took over is left alone, for writes to come.
const aloneFor = 10 * time.Second

// through takes a pair through the loss of the primary's node and back, while somebody writes: nothing is lost, and the other
// member stays the primary.
func (w *world) through(p *pair, what string, lose, bring func()) {
	w.Helper()
	result := w.watched(w.T, p.runner, faults.PlannedFor(p.runner.Target.Name, what, aloneFor,
		func(context.Context) error { lose(); w.moved(p); return nil },
		func(context.Context) error { bring(); return nil }))
	fmt.Printf("      %s: writes out for %.1f s; %d of %d rows lost, two primaries in %d of %d looks; both members again after %.0f s\n", what,
		float64(result.Outage)/1000, result.Lost, result.Written, result.Double, result.Polls, float64(result.Recovery)/1000)
	if result.Lost > 0 || result.Double > 0 {
		w.Errorf("%d rows are lost, and %d looks saw two primaries", result.Lost, result.Double)
	}
	if result.OldPrimary != p.primary || result.NewPrimary == p.primary {
		w.Errorf("the primary was %s, then %s; the other one was to take over from %s and to stay", result.OldPrimary, result.NewPrimary, p.primary)
	}
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

// TestDrain drains the primary's node. Its pod can't go anywhere else, as its volume is there, but the other member takes over,
// and that one is kept until the first is back.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.start()
	p := w.newPair("drained")
	w.through(p, "drain of the primary's node", func() {
		if output, err := w.drain(p.primaryNode, "--timeout=3m"); err != nil {
			t.Fatalf("the drain of the primary's node: %v\n%s", err, output)
		}
	}, func() {
		output, err := w.drain(p.standbyNode, "--timeout=5s", "--pod-selector=database=drained")
		if err == nil || !strings.Contains(output, "disruption budget") {
			t.Errorf("the only member that serves is evicted: %v\n%s", err, output)
		}
		w.uncordon(p.standbyNode)
		w.uncordon(p.primaryNode)
	})
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

// TestNodeLoss cuts the primary's node off while somebody writes: the other member takes over, and what was acknowledged is
// there when the node is back.
func TestNodeLoss(t *testing.T) {
	w := newWorld(t)
	w.start()
	p := w.newPair("lost")
	node := testenv.Get(w).Node(p.primaryNode)
	join := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), time.Minute)
		defer cancel()
		if err := node.Join(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(join) // whatever comes of the case
	w.through(p, "loss of the primary's node", func() {
		if err := node.Cut(t.Context()); err != nil {
			t.Fatal(err)
		}
	}, join)
}

// TestWorstState: the primary went on alone and is then lost. The standby that comes back doesn't lead by itself, as it lacks
// what was acknowledged meanwhile; a person can force it, as docs/failover.md says.
func TestWorstState(t *testing.T) {
	w := newWorld(t)
	w.start()
	p := w.newPair("worst")
	patroni := func(arguments ...string) string {
		return w.kubectl(append([]string{"exec", p.standby, "-c", "postgres", "--", "/patroni/databases-patroni", "ctl"}, arguments...)...)
	}
	w.sql("worst", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);")
	w.cordoned(func() {
		w.kubectl("delete", "pod", p.standby)
		w.eventually("the primary goes on alone", func() bool {
			_, err := w.trySQL("worst", "SET statement_timeout = '2s';", "INSERT INTO t VALUES (2);")
			var store corev1.ConfigMap
			w.get("worst-sync", &store)
			return err == nil && store.Annotations["sync_standby"] == ""
		})
		w.kubectl("delete", "pod", p.primary)
		w.uncordon(p.standbyNode)
		w.eventually("PostgreSQL runs on the standby", func() bool {
			output, err := w.tryKubectl("", "exec", p.standby, "-c", "postgres", "--", "/patroni/databases-patroni", "ctl", "list")
			return err == nil && strings.Contains(output, "running")
		}, func() string { return w.kubectl("get", "pods", "-o", "wide") })
		time.Sleep(30 * time.Second) // longer than Patroni's ttl: it would lead by now
		if output, err := w.trySQL("worst", "SELECT 1;"); err == nil {
			t.Errorf("somebody leads: %s\n%s", output, patroni("list"))
		}
		patroni("failover", "worst", "--candidate", p.standby, "--force")
		w.eventually("the standby leads", func() bool {
			_, err := w.trySQL("worst", "INSERT INTO t VALUES (3);")
			return err == nil
		}, func() string { return patroni("list") })
	})
	if now := w.settled("worst").Status.Primary; now != p.standby {
		t.Errorf("the primary is %s", now)
	}
	if got := w.sql("worst", "SELECT string_agg(DISTINCT i::text, ' ' ORDER BY i::text) FROM t;"); got != "1 3" {
		t.Errorf("the rows are %q: what the old primary acknowledged alone is lost, and no more", got)
	}
}
