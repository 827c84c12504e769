//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/testenv"
)

func replicas(n int32) func(*databasev1.Database) {
	return func(db *databasev1.Database) { db.Spec.Replicas = n }
}

// claims are the Database's claims by name, with their uids.
func (w *world) claims(name string) map[string]string {
	w.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := w.List(w.Context(), &list, client.InNamespace(w.namespace), client.MatchingLabels{"app": "database", "database": name}); err != nil {
		w.Fatal(err)
	}
	all := map[string]string{}
	for _, claim := range list.Items {
		all[claim.Name] = string(claim.UID)
	}
	return all
}

// readOnly runs statements through the standbys' Service.
func (w *world) readOnly(name string, statements ...string) (string, error) {
	w.Helper()
	uri := string(w.secret(name).Data["uri"])
	return w.psql(strings.Replace(uri, name+"."+w.namespace, name+"-ro."+w.namespace, 1), statements...)
}

// rows counts the table's rows as each way to the server shows them, until the standbys have them too.
func (w *world) rows(name string, want int, standbys bool) {
	w.Helper()
	if got := w.sql(name, "SELECT count(*) FROM t;"); got != fmt.Sprint(want) {
		w.Fatalf("the primary has %s rows, want %d", got, want)
	}
	if !standbys {
		return
	}
	w.eventually("the rows are read through the standbys' Service", func() bool {
		got, err := w.readOnly(name, "SELECT count(*), pg_is_in_recovery() FROM t;")
		return err == nil && got == fmt.Sprintf("%d|t", want)
	})
}

// TestScale: what is written through the one Service is read through the other; fewer and more replicas keep the volumes
// and the data, wherever the primary is.
func TestScale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	begin := time.Now()
	w.create("my-database", replicas(3))
	w.settled("my-database")
	fmt.Printf("      three replicas, the images on the node: Ready %.1f s after create\n", time.Since(begin).Seconds())
	w.sql("my-database", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);")
	w.rows("my-database", 1, true)
	if output, err := w.readOnly("my-database", "INSERT INTO t VALUES (2);"); err == nil || !strings.Contains(output, "read-only transaction") {
		t.Errorf("a write through the standbys' Service: %v, %s", err, output)
	}
	w.restNeedsPassword("my-database-1")
	claims := w.claims("my-database")
	w.scale("my-database", 1)
	w.sql("my-database", "INSERT INTO t VALUES (2);")
	w.scale("my-database", 3)
	w.rows("my-database", 2, true)
	// The primary on the last pod, and the synchronous standby wherever it is: the first pod's must become the primary.
	w.switchover("my-database", "my-database-2")
	w.scale("my-database", 1)
	w.sql("my-database", "INSERT INTO t VALUES (3);")
	w.scale("my-database", 3)
	w.rows("my-database", 3, true)
	if now := w.claims("my-database"); len(now) != 3 || !same(claims, now) {
		t.Errorf("the volumes were %v and are %v", claims, now)
	}
}

func (w *world) scale(name string, n int32) {
	w.Helper()
	w.change(name, replicas(n))
	w.settled(name)
	if pods := w.pods(name); len(pods) != int(n) {
		w.Errorf("there are %d pods, want %d", len(pods), n)
	}
}

// restNeedsPassword: whoever reaches Patroni's REST interface can only look.
func (w *world) restNeedsPassword(pod string) {
	w.Helper()
	w.clientPod()
	script := `address=$0; for path in restart reinitialize switchover failover config; do
method=POST; [ $path = config ] && method=PATCH
exec 3<>/dev/tcp/$address/8008
printf '%s /%s HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}' $method $path >&3
read -r line <&3; echo "$path $line"; exec 3>&-; done`
	var p corev1.Pod
	w.get(pod, &p)
	output, err := w.tryKubectl("", "exec", "client", "--", "bash", "-c", script, p.Status.PodIP)
	if err != nil {
		w.Fatalf("%v: %s", err, output)
	}
	for line := range strings.Lines(output) {
		if !strings.Contains(line, " 401 ") {
			w.Errorf("Patroni answers %q without a password", line)
		}
	}
}

// switchover makes the pod the primary, as a person does, and waits for it.
func (w *world) switchover(name, pod string) {
	w.Helper()
	w.settled(name)
	db := &databasev1.Database{}
	w.get(name, db)
	if db.Status.Primary == pod {
		return
	}
	// To a standby that hasn't every acknowledged write Patroni refuses it, so a failover, which a person may ask for.
	w.kubectl("exec", db.Status.Primary, "-c", "postgres", "--", "/patroni/databases-patroni", "ctl", "failover", "--candidate", pod, "--force")
	w.eventually(pod+" is the primary", func() bool {
		w.get(name, db)
		return db.Status.Primary == pod
	})
	w.settled(name)
}

// changes lists the events by which pods were restarted and the primary moved since a time, in their order.
func (w *world) changes(name string, since time.Time) (all []string) {
	w.Helper()
	var list eventsv1.EventList
	if err := w.List(w.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.EventTime.After(since) && (e.Reason == databasev1.ReasonRestarting || e.Reason == databasev1.ReasonSwitchover) {
			all = append(all, e.Reason+" "+e.Note)
		}
	}
	return all
}

// TestRollStops: a change that a standby doesn't survive goes no further, and its correction goes on by itself.
func TestRollStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("rolled", replicas(3))
	db := w.settled("rolled")
	w.sql("rolled", "CREATE TABLE t (i int);")
	before, primary := w.pods("rolled"), db.Status.Primary
	cpu := func(cores string) {
		w.change("rolled", func(db *databasev1.Database) {
			db.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores)}}
		})
	}
	cpu("1000")
	w.condition("rolled", databasev1.ConditionReady, databasev1.ReasonUnschedulable)
	w.rows("rolled", 0, false)
	time.Sleep(10 * time.Second) // in which nothing more may happen
	changed := 0
	for pod, uid := range w.pods("rolled") {
		if before[pod] != uid {
			changed++
		}
	}
	if db := w.condition("rolled", databasev1.ConditionUpToDate, databasev1.ReasonRollingOut); changed != 1 || db.Status.Primary != primary || !db.Status.Ready {
		t.Errorf("%d pods changed, the primary is %s and was %s, ready %t", changed, db.Status.Primary, primary, db.Status.Ready)
	}
	cpu("10m")
	w.settled("rolled")
	for pod, uid := range w.pods("rolled") {
		if before[pod] == uid {
			t.Errorf("%s still runs as before", pod)
		}
	}
	all := w.changes("rolled", time.Time{})
	if last := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, databasev1.ReasonSwitchover) }); last < 2 {
		t.Errorf("the primary was not moved after the standbys: %q", all)
	}
}

// TestStuckMember: a standby that was away for longer than the primary keeps its log is cloned anew, and says so.
func TestStuckMember(t *testing.T) {
	w := newWorld(t)
	w.startHere(nil, func(o *manager.Options) { o.StuckAfter = 30 * time.Second })
	w.create("stuck", replicas(2), func(db *databasev1.Database) { db.Spec.Storage.Size = "400Mi" })
	w.settled("stuck")
	w.switchover("stuck", "stuck-0")
	w.sql("stuck", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);")
	w.cordoned(func() {
		w.kubectl("delete", "pod", "stuck-1")
		w.condition("stuck", databasev1.ConditionReady, databasev1.ReasonUnschedulable)
		for range 12 { // of 16 MB each; the primary keeps a quarter of the volume
			w.superuserSQL("stuck-0", "CREATE TABLE more AS SELECT 1; DROP TABLE more; SELECT pg_switch_wal(); CHECKPOINT")
		}
	})
	var standby corev1.Pod
	w.eventually("the standby runs", func() bool {
		return w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "stuck-1"}, &standby) == nil && standby.Status.Phase == corev1.PodRunning
	})
	w.eventually("the standby is cloned anew", func() bool {
		return strings.Contains(w.kubectl("get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}"), databasev1.ReasonRecloning)
	}, func() string { return w.kubectl("logs", "stuck-1", "-c", "postgres", "--tail=30") })
	w.settled("stuck")
	w.rows("stuck", 1, true)
	var claim corev1.PersistentVolumeClaim
	w.get("data-stuck-1", &claim)
	if claim.Annotations["database.example.com/recloned"] == "" {
		t.Error("the claim doesn't say that it was filled anew")
	}
}

// cordoned calls f while no node takes new pods.
func (w *world) cordoned(f func()) {
	w.Helper()
	w.kubectl("cordon", "--selector=kubernetes.io/os")
	done := false
	uncordon := func() {
		if !done {
			done = true
			_, _ = exec.Command(kubectl, "--kubeconfig", testenv.Get(w).Kubeconfig, "uncordon", "--selector=kubernetes.io/os").CombinedOutput()
		}
	}
	w.Cleanup(uncordon)
	f()
	uncordon()
}

// superuserSQL runs statements one by one as superuser, by the pod's own socket.
func (w *world) superuserSQL(pod, statements string) string {
	w.Helper()
	arguments := []string{"exec", pod, "-c", "postgres", "--", "psql", "--no-psqlrc", "-qAt", "-h", "/run/databases", "-U", "postgres", "-v", "ON_ERROR_STOP=1"}
	for statement := range strings.SplitSeq(statements, ";") {
		arguments = append(arguments, "-c", statement)
	}
	return w.kubectl(arguments...)
}
