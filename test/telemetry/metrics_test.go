package telemetry_test

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
)

// TestMetrics provokes each metric, and finds it at the receiver and under its name in Prometheus.
func TestMetrics(t *testing.T) {
	r := newReceiver(t)
	env := toReceiver(r)
	env["OTEL_METRICS_EXPORTER"] = "otlp,prometheus"
	env["OTEL_EXPORTER_PROMETHEUS_HOST"], env["OTEL_EXPORTER_PROMETHEUS_PORT"] = "127.0.0.1", strconv.Itoa(freePort(t))
	w := newWorld(t, sharedServer, sharedDSN, env)
	taken := w.specName("taken")
	w.exec("CREATE ROLE " + taken)
	w.start()
	w.create("orders")
	w.create("taken")
	w.ready("orders")
	w.wait("taken", v1alpha1.ReasonAlreadyExists)
	if err := w.Delete(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders-postgres"}}); err != nil {
		t.Fatal(err)
	}
	expect := func(name, attributes string, ok func(float64) bool) {
		t.Helper()
		w.eventually(name+" "+attributes, func() bool {
			value, found := r.metric(name)[attributes]
			return found && ok(value)
		}, func() any { return r.metric(name) })
	}
	is := func(want float64) func(float64) bool { return func(got float64) bool { return got == want } }
	positive := func(got float64) bool { return got > 0 }
	expect("databases.password.rotations", "databases.kind=shared", is(1))
	w.ready("orders")
	w.exec("ALTER ROLE " + w.specName("orders") + " NOLOGIN")
	w.touch("orders")
	expect("databases.drift.repaired", "databases.change=ALTER ROLE,databases.kind=shared", is(1))
	expect("databases.claims.refused", "databases.kind=shared,databases.reason=AlreadyExists", is(1))
	expect("databases.count", "databases.kind=shared,databases.ready.reason=Provisioned,databases.ready=true", is(1))
	expect("databases.count", "databases.kind=shared,databases.ready.reason=AlreadyExists,databases.ready=false", is(1))
	expect("databases.unready.age.max", "databases.kind=shared,databases.ready.reason=AlreadyExists", positive)
	expect("databases.provision.duration", "databases.kind=shared", positive)
	expect("databases.provision.duration", "databases.kind=shared,error.type=AlreadyExists", positive)
	expect("databases.ready.duration", "databases.kind=shared", is(1))
	expect("databases.server.up", "", is(1))
	expect("db.client.operation.duration", "db.query.summary=SELECT pg_roles pg_database,db.system.name=postgresql", positive)
	expect("db.client.operation.duration", "db.query.summary=CREATE ROLE; COMMENT ROLE; GRANT ROLE,db.system.name=postgresql", is(1))
	expect("controller_runtime_reconcile_total", "controller=database,result=requeue_after", positive)
	w.failover()
	expect("databases.failovers", "databases.planned=false", is(1))
	expect("databases.count", "databases.kind=dedicated,databases.ready.reason=PostgresUnavailable,databases.ready=false", is(1))
	w.scrape()
}

// failover makes a server by hand, whose primary becomes another pod: there is no node here to run one.
func (w *world) failover() {
	w.Helper()
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "server"}}
	db.Spec.DatabaseName, db.Spec.Username, db.Spec.Storage.Size, db.Spec.Replicas = "app", "app", "1Gi", 2
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := w.Patch(context.WithoutCancel(w.Context()), db, patch); err != nil {
			w.Error(err)
		}
	})
	store := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "server-leader"}}
	w.eventually("the StatefulSet and the store", func() bool {
		return w.Get(w.Context(), client.ObjectKeyFromObject(db), &appsv1.StatefulSet{}) == nil &&
			w.Get(w.Context(), client.ObjectKeyFromObject(store), store) == nil
	})
	for _, name := range []string{"server-0", "server-1"} {
		w.pod(name)
	}
	for _, leader := range []string{"server-0", "", "server-1"} {
		update(w, store.Name, store, func(store *corev1.ConfigMap) {
			if store.Annotations == nil {
				store.Annotations = map[string]string{}
			}
			store.Annotations["leader"] = leader
		})
		if leader != "" { // as Patroni labels it; the controller has taken the label off all others
			update(w, leader, &corev1.Pod{}, func(pod *corev1.Pod) { pod.Labels["role"] = "primary" })
		}
		w.eventually("the primary "+leader, func() bool {
			w.get("server", db)
			return db.Status.Primary == leader
		})
	}
}

func (w *world) pod(name string) {
	w.Helper()
	set := &appsv1.StatefulSet{}
	w.get("server", set)
	labels := maps.Clone(set.Spec.Template.Labels)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: labels, Annotations: set.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: "none"}}},
	}
	if err := w.Create(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
	pod.Status.PodIP = "127.0.0.1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := w.Status().Update(w.Context(), pod); err != nil {
		w.Fatal(err)
	}
}

// scrape compares what Prometheus gets with the names that alert rules and the dashboard use.
func (w *world) scrape() {
	w.Helper()
	response, err := http.Get("http://" + w.settings.Telemetry.Prometheus + "/metrics")
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		w.Fatalf("%s: %v\n%s", response.Status, err, body)
	}
	var got []string
	for line := range strings.Lines(string(body)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "{")
		name, _, _ = strings.Cut(name, " ")
		got = append(got, name)
	}
	for _, want := range []string{
		"databases_count", "databases_unready_age_max_seconds", "databases_provision_duration_seconds_bucket", "databases_ready_duration_seconds_bucket",
		"db_client_operation_duration_seconds_bucket", "databases_drift_repaired_total", "databases_password_rotations_total", "databases_claims_refused_total",
		"databases_server_up", "databases_failovers_total", "controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total",
		"controller_runtime_reconcile_panics_total", "controller_runtime_reconcile_time_seconds_bucket", "controller_runtime_active_workers",
		"workqueue_depth", "workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds", "rest_client_requests_total",
		"process_start_time_seconds", "go_goroutines",
	} {
		if !slices.Contains(got, want) {
			w.Errorf("Prometheus doesn't get %s", want)
		}
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "databases_count{") && !strings.Contains(line, `databases_kind="`) {
			w.Errorf("without its kind: %s", line)
		}
	}
}

// freePort is one that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
