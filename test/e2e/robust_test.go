//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
)

func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// TestControllerGone: restarted, killed, of another build, and cut off from the API server: no pod restarts, no
// password changes, and the application goes on.
func TestControllerGone(t *testing.T) {
	w := newWorld(t)
	proxy := w.throughProxy()
	w.start()
	w.create("steady")
	w.ready("steady")
	pods, password := w.pods("steady"), string(w.secret("steady").Data["password"])
	check := func(what string) {
		t.Helper()
		w.change("steady", func(db *databasev1.Database) {
			db.Annotations = map[string]string{databasev1.ReconcileAnnotation: what}
		})
		time.Sleep(3 * time.Second)
		w.settled("steady")
		if now := w.pods("steady"); !same(pods, now) || string(w.secret("steady").Data["password"]) != password {
			t.Errorf("%s: pods %v, before %v; the password is the same: %t", what, now, pods, string(w.secret("steady").Data["password"]) == password)
		}
		if got := w.sql("steady", "SELECT 1;"); got != "1" {
			t.Errorf("%s: psql prints %q", what, got)
		}
	}
	w.kill(syscall.SIGTERM)
	w.start()
	check("restarted")
	w.kill(syscall.SIGKILL)
	w.start()
	check("killed")
	w.kill(syscall.SIGTERM)
	w.start("PATRONI_IMAGE=databases-patroni:another")
	check("another build")
	w.kill(syscall.SIGTERM)
	w.log.Reset()
	w.start()
	w.eventually("the program works", func() bool { return strings.Contains(w.log.String(), `"msg":"Starting workers","controller":"server"`) })
	proxy.cut(true)
	time.Sleep(15 * time.Second)
	proxy.cut(false)
	check("cut off")
}

// proxy stands between the program and the API server.
type proxy struct {
	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

// throughProxy makes the program reach the API server through a proxy.
func (w *world) throughProxy() *proxy {
	w.Helper()
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { listener.Close() })
	p := &proxy{}
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			w.Fatal(err)
		}
		cluster.Server, cluster.TLSServerName = "https://"+listener.Addr().String(), server.Hostname()
		go p.serve(listener, server.Host)
	}
	w.kubeconfig = filepath.Join(w.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
		w.Fatal(err)
	}
	return p
}

func (p *proxy) serve(listener net.Listener, server string) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", server)
		p.mu.Lock()
		if err != nil || p.off {
			in.Close()
			if out != nil {
				out.Close()
			}
		} else {
			p.conns = append(p.conns, in, out)
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
		p.mu.Unlock()
	}
}

// cut ends all connections and lets no new one through, until it is called with false.
func (p *proxy) cut(off bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = off
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// TestIdle: five Databases that nothing happens to, one of them with standbys, cost the controller no write in three minutes.
// Where something does happen to them on a busy machine, and is told, they are watched anew, twice at most.
func TestIdle(t *testing.T) {
	w := newWorld(t)
	w.start("CONTROLLER_RESYNC=20s") // so that each is looked at some nine times
	begun := w.mark()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.create(name, sized("400Mi"), func(db *databasev1.Database) {
			if name == "e" {
				db.Spec.Replicas = 3
			}
		})
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.settled(name)
	}
	time.Sleep(2 * time.Second)
	if all := w.writes(begun); len(all) < 5*15 {
		t.Errorf("the audit log has only %d writes of the creation", len(all))
	}
	for again := 2; ; again-- {
		mark := w.mark()
		happened := w.happens(3 * time.Minute)
		looks, all := w.reads(mark), w.writes(mark)
		// Only what tells of it is an answer to what happened: a status, an event. Anything else it may have come from.
		does := slices.ContainsFunc(all, func(write string) bool {
			return !strings.Contains(write, "/status") && !strings.Contains(write, "/events")
		})
		if len(all) > 0 && len(happened) > 0 && !does && again > 0 {
			t.Logf("not idle, and so looked at anew: %s; the writes were %s", strings.Join(happened, "; "), strings.Join(all, ", "))
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				w.settled(name)
			}
			time.Sleep(2 * time.Second)
			continue
		}
		if looks < 5*5 {
			t.Errorf("the Databases were looked at %d times only", looks)
		}
		if len(all) > 0 {
			t.Errorf("%d writes: %s; what happened to the pods: %q", len(all), strings.Join(all, ", "), happened)
		}
		return
	}
}

// happens tells what happens to the case's pods in a time: a pod that stands still for some seconds on a busy machine is a change that
// the controller must write.
func (w *world) happens(within time.Duration) (all []string) {
	w.Helper()
	var before map[string]string
	for end := time.Now().Add(within); ; time.Sleep(time.Second) {
		over := !time.Now().Before(end)
		var list corev1.PodList
		if err := w.List(w.Context(), &list, client.InNamespace(w.namespace)); err == nil { // else it is seen at the next look
			now := map[string]string{}
			for i := range list.Items {
				name := list.Items[i].Name
				if now[name] = state(&list.Items[i]); before != nil && now[name] != before[name] {
					all = append(all, fmt.Sprintf("%s was %q and is %q", name, before[name], now[name]))
				}
			}
			before = now
		}
		if over {
			return all
		}
	}
}

// state is what a pod is and does, as far as the controller goes by it.
func state(pod *corev1.Pod) string {
	var patroni struct {
		State            string
		ReplicationState string `json:"replication_state"`
	}
	_ = json.Unmarshal([]byte(pod.Annotations["status"]), &patroni)
	text := fmt.Sprintf("%s, role %s, %s %s", identity(pod), pod.Labels["role"], patroni.State, patroni.ReplicationState)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			text += fmt.Sprintf(", ready %s since %s", c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly))
		}
	}
	return text
}

// TestNamespaceDeleted: a namespace with Databases of both kinds goes while the controller runs.
func TestNamespaceDeleted(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
	w := newWorld(t)
	dsn, err := server.WeakAdmin(t.Context(), "weak_admin")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"POSTGRES_ADMIN_DSN_FILE=" + file, "POSTGRES_HOST=" + server.Host(), "CONTROLLER_NAMESPACE="}
	w.start()
	w.create("kept")
	w.create("dropped", func(db *databasev1.Database) { db.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		db := &v1alpha1.Database{Spec: v1alpha1.DatabaseSpec{Name: "shared_" + strings.ToLower(string(policy)), DeletionPolicy: policy}}
		db.Namespace, db.Name = w.namespace, "shared-"+strings.ToLower(string(policy))
		if err := w.Create(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	w.ready("kept")
	w.ready("dropped")
	if output, err := w.tryKubectl("", "delete", "namespace", w.namespace, "--timeout=3m"); err != nil {
		t.Fatalf("%v: %s\n%s", err, output, w.log.tail(20))
	}
	w.eventually("the namespace is gone", func() bool {
		return w.Get(t.Context(), client.ObjectKey{Name: w.namespace}, &corev1.Namespace{}) != nil
	})
}

// TestParameters: one that needs no restart is reloaded, one that needs it restarts the pod, a wrong one is refused.
func TestParameters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("tuned")
	w.ready("tuned")
	pods := w.pods("tuned")
	set := func(name, value string) {
		w.change("tuned", func(db *databasev1.Database) {
			if db.Spec.Parameters == nil {
				db.Spec.Parameters = map[string]databasev1.ParameterValue{}
			}
			db.Spec.Parameters[name] = databasev1.ParameterValue(value)
		})
	}
	set("work_mem", "9MB")
	w.eventually("work_mem is reloaded", func() bool {
		got, err := w.trySQL("tuned", "SHOW work_mem;")
		return err == nil && got == "9MB"
	})
	w.settled("tuned")
	if !same(pods, w.pods("tuned")) {
		t.Error("a parameter that needs no restart restarted the pod")
	}
	set("work_mem", "lots")
	db := w.condition("tuned", databasev1.ConditionUpToDate, databasev1.ReasonInvalidParameters)
	if !db.Status.Ready || w.sql("tuned", "SHOW work_mem;") != "9MB" {
		t.Errorf("a wrong value: ready %t, work_mem %s", db.Status.Ready, w.sql("tuned", "SHOW work_mem;"))
	}
	set("work_mem", "9MB")
	set("max_connections", "10")
	w.condition("tuned", databasev1.ConditionUpToDate, databasev1.ReasonInvalidParameters)
	set("max_connections", "60")
	set("shared_buffers", "64MB")
	w.eventually("shared_buffers is 64MB", func() bool {
		got, err := w.trySQL("tuned", "SHOW shared_buffers;")
		return err == nil && got == "64MB"
	})
	w.settled("tuned")
	// Lower than it was: Patroni keeps such a value back until the primary itself has restarted.
	set("max_connections", "50")
	w.eventually("max_connections is 50", func() bool {
		got, err := w.trySQL("tuned", "SHOW max_connections;")
		return err == nil && got == "50"
	})
	w.settled("tuned")
	if !same(pods, w.pods("tuned")) {
		t.Error("a parameter replaced a pod or restarted its container")
	}
	// One that can't be foreseen keeps PostgreSQL from starting; the right one is taken all the same.
	set("shared_preload_libraries", "no_such_library")
	w.eventually("PostgreSQL doesn't start", func() bool {
		_, err := w.trySQL("tuned", "SELECT 1;")
		return err != nil
	})
	set("shared_preload_libraries", "")
	w.settled("tuned")
	if got := w.sql("tuned", "SHOW max_connections;"); got != "50" {
		t.Errorf("psql prints %q", got)
	}
}

// TestReplicas: the volumes are used again, and when they are taken over, the last primary's data wins.
func TestReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("many", func(db *databasev1.Database) { db.Spec.Replicas = 2 })
	w.settled("many")
	w.sql("many", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);")
	scale := func(n int32) {
		w.change("many", func(db *databasev1.Database) { db.Spec.Replicas = n })
		w.settled("many")
	}
	scale(1)
	w.sql("many", "INSERT INTO t VALUES (2);")
	w.kubectl("delete", "pgserver", "many", "--timeout=3m") // PostgreSQL has two minutes to stop
	w.create("many", func(db *databasev1.Database) { db.Spec.Replicas = 2 })
	w.settled("many")
	if got := w.sql("many", "SELECT count(*) FROM t;"); got != "2" {
		t.Errorf("after the volumes were taken over there are %s rows", got)
	}
	scale(1)
	scale(2)
	if got := w.sql("many", "SELECT count(*) FROM t;"); got != "2" {
		t.Errorf("after scaling there are %s rows", got)
	}
}

// TestDeletedAndMadeAgain at once: nothing of the first one is left in the second one's way.
func TestDeletedAndMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	const times = 10
	for i := range times {
		w.create("again", func(db *databasev1.Database) {
			db.Spec.Storage.Size, db.Spec.DeletionPolicy = "400Mi", databasev1.DeletionPolicyDelete
		})
		w.ready("again")
		// This would fail on the volume of the one before.
		w.sql("again", "CREATE TABLE t (i int);")
		w.kubectl("delete", "pgserver", "again", "--timeout=3m") // PostgreSQL has two minutes to stop
		if i == times-1 {
			w.gone("data-again-0", &corev1.PersistentVolumeClaim{})
		}
	}
}
