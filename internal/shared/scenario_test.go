package shared_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// newRehearsal makes a world whose namespace is trusted with failure scenarios.
func newRehearsal(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.options.Settings.FaultTrustedPrefix = w.namespace[:8]
	w.options.Settings.FaultMaxDelay = 10 * time.Second
	return w
}

func scenario(text string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, v1alpha1.FailureScenarioAnnotation, text)
	}
}

// carry gives a Database another scenario, as a person does; none where the text is empty.
func (w *world) carry(name, text string) {
	w.Helper()
	value := fmt.Sprintf("%q", text)
	if text == "" {
		value = "null"
	}
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.FailureScenarioAnnotation, value))
	if err := w.Patch(w.Context(), db, patch); err != nil {
		w.Fatal(err)
	}
}

// password is the one in the Secret, empty where there is no Secret.
func (w *world) password(name string) string {
	w.Helper()
	if s := w.secret(name); s != nil {
		return string(s.Data["password"])
	}
	return ""
}

func TestScenarioServerFails(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	name := w.create("orders", scenario("provision=error")).Spec.Name
	first := w.wait("orders", v1alpha1.ReasonPostgresUnavailable)
	if got, want := w.message("orders"), "The Database's failure scenario makes provision fail."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	time.Sleep(time.Second) // some more failures
	db := &v1alpha1.Database{}
	w.get("orders", db)
	if role, _ := w.exists(name); role || w.trips.total() > 0 || w.secret("orders") != nil || db.ResourceVersion != first.ResourceVersion {
		t.Errorf("something was done: role %v, round trips %d, status %+v", role, w.trips.total(), db.Status)
	}
	if n := strings.Count(w.log.String(), "injected fault before provision"); n < 2 {
		t.Errorf("the log tells of %d failures", n)
	}
	w.carry("orders", "provision=3*error")
	w.ready("orders")
	w.mustLogIn("orders")
	if diff := cmp.Diff([]string{"Normal Provisioned", "Warning PostgresUnavailable"}, w.events("orders")); diff != "" {
		t.Errorf("events: %s", diff)
	}
	// It has struck three times, and it rests until somebody changes it.
	w.touch("orders", "again")
	w.settle()
	w.ready("orders")
}

func TestScenarioServerRace(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	w.create("orders", scenario("provision=conflict"))
	w.wait("orders", v1alpha1.ReasonPostgresUnavailable)
	if got, want := w.message("orders"), "The Database's failure scenario makes provision lose a race (SQLSTATE 40001)."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	w.carry("orders", "provision=2*conflict")
	w.ready("orders")
	w.mustLogIn("orders")
}

func TestScenarioServerSlow(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	start := time.Now()
	w.create("orders", scenario("provision=1*delay(2s)"))
	w.ready("orders")
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("Ready after %s, within the delay", took)
	}
	w.mustLogIn("orders")
	if events := w.events("orders"); len(events) > 0 {
		t.Errorf("events: %q", events)
	}
}

// TestScenarioDelayCapped also asks for a Database whose delays are all cut to nothing.
func TestScenarioDelayCapped(t *testing.T) {
	t.Parallel()
	for limit, scenarioText := range map[time.Duration]string{time.Second: "provision=1*delay(10m)", 0: "provision=delay(1h); apply-secret=delay(1h)"} {
		t.Run(limit.String(), func(t *testing.T) {
			w := newRehearsal(t)
			w.options.Settings.FaultMaxDelay = limit
			w.start()
			start := time.Now()
			w.create("orders", scenario(scenarioText))
			w.ready("orders")
			if took := time.Since(start); took < limit || took > limit+20*time.Second {
				t.Errorf("Ready after %s, want a little more than %s", took, limit)
			}
		})
	}
}

// TestScenarioDelayAtShutdown: a short delay is waited out, a long one is ended so that the process ends in time.
func TestScenarioDelayAtShutdown(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.options.Settings.FaultMaxDelay = time.Minute
	w.start()
	short := w.create("short", scenario("provision=1*delay(3s)")).Spec.Name
	long := w.create("long", scenario("provision=1*delay(50s)")).Spec.Name
	w.eventually("both were begun", func() bool {
		for _, name := range []string{"short", "long"} {
			db := &v1alpha1.Database{}
			if w.get(name, db); len(db.Finalizers) == 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(time.Second)
	start := time.Now()
	w.stop()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the controller stopped after %s, want 20s at most", took)
	}
	w.ready("short")
	w.mustLogIn("short")
	if role, _ := w.exists(long); role || w.secret("long") != nil {
		t.Error("the long delay was followed by its operation")
	}
	if role, _ := w.exists(short); !role {
		t.Error("the short delay wasn't waited out")
	}
}

func TestScenarioPanic(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.options.Settings.Workers = 1 // the one that panics
	w.start()
	before := panics(t)
	for n, text := range []string{"provision=2*panic", "read-secret=2*panic", "apply-secret=2*panic"} {
		w.create(fmt.Sprint("orders-", n), scenario(text), deletePolicy)
	}
	w.create("other")
	for _, name := range []string{"orders-0", "orders-1", "orders-2", "other"} {
		w.ready(name)
		w.mustLogIn(name)
	}
	w.carry("orders-0", "drop=1*panic")
	w.delete("orders-0")
	w.gone("orders-0")
	if n := panics(t) - before; n < 7 {
		t.Errorf("controller_runtime_reconcile_panics_total rose by %v, want 7", n)
	}
	if passwordLike.MatchString(w.log.String()) {
		t.Error("the log has a password")
	}
}

// panics is the library's count of panics that it recovered.
func panics(t *testing.T) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_panics_total" {
			for _, m := range family.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// TestScenarioNeighbour: with two workers, one of which is held, another Database is provisioned as ever.
func TestScenarioNeighbour(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.options.Settings.Workers, w.options.Settings.FaultMaxDelay = 2, time.Minute
	w.start()
	w.create("slow", scenario("provision=1*delay(40s)"))
	time.Sleep(500 * time.Millisecond)
	w.create("orders")
	w.ready("orders")
	w.mustLogIn("orders")
	slow := &v1alpha1.Database{}
	if w.get("slow", slow); apimeta.FindStatusCondition(slow.Status.Conditions, v1alpha1.ConditionReady) != nil {
		t.Errorf("the slow one was no slower: %+v", slow.Status)
	}
	w.carry("slow", "")
	w.ready("slow")
}

func TestScenarioUntrusted(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"no prefix": "", "another prefix": "rehearsal-"} {
		t.Run(name, func(t *testing.T) {
			w := newRehearsal(t)
			w.options.Settings.FaultTrustedPrefix = prefix
			w.start()
			w.create("orders", scenario("provision=error; read-secret=panic; apply-secret=delay(10s)"))
			w.create("typo", scenario("provision=eror"))
			for _, name := range []string{"orders", "typo"} {
				w.ready(name)
				w.mustLogIn(name)
				if events := w.events(name); len(events) > 0 {
					t.Errorf("events: %q", events)
				}
				if carried := w.secret(name).Annotations[v1alpha1.FailureScenarioAnnotation]; carried != "" {
					t.Errorf("the Secret carries %q", carried)
				}
			}
		})
	}
}

func TestScenarioInvalid(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	w.create("orders", scenario("provision=3*eror"))
	w.ready("orders")
	w.mustLogIn("orders")
	for i := range 3 {
		w.settleQuick(func() { w.touch("orders", fmt.Sprint(i)) })
	}
	if diff := cmp.Diff([]string{"Warning FailureScenarioInvalid"}, w.events("orders")); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if carried := w.secret("orders").Annotations[v1alpha1.FailureScenarioAnnotation]; carried != "" {
		t.Errorf("the Secret carries %q", carried)
	}
	var events corev1.EventList
	if err := w.List(w.Context(), &events, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	want := `The annotation postgres.example.com/failure-scenario is ignored: at character 13, "eror": there must be error, conflict, panic, delay(2s) or off.`
	if got := events.Items[0].Message; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	w.settleQuick(func() { w.carry("orders", "provision=3*errror") }) // another value, another event
	if events := w.events("orders"); len(events) != 2 {
		t.Errorf("events: %q", events)
	}
}
