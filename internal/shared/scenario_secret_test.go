package shared_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// passwordLike is what a generated password looks like, and nothing else in a log.
var passwordLike = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)

func TestScenarioSecretUnreadable(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	name := w.create("orders", scenario("read-secret=error")).Spec.Name
	w.wait("orders", v1alpha1.ReasonSecretApplyFailed)
	if got, want := w.message("orders"), "The Secret could not be read."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	time.Sleep(time.Second)
	if role, _ := w.exists(name); role || w.trips.total() > 0 || w.secret("orders") != nil {
		t.Error("SQL was sent, or a Secret made, without having read it")
	}
	w.carry("orders", "")
	w.ready("orders")
	password := w.password("orders")
	w.settle()
	w.trips.take()

	// The same of one that is there: a scenario is carried to the Secret, which is read for that.
	for _, text := range []string{"read-secret=error", "read-secret=conflict"} {
		w.carry("orders", text)
		w.wait("orders", v1alpha1.ReasonSecretApplyFailed)
		time.Sleep(time.Second)
		if trips := w.trips.take(); len(trips) > 0 {
			t.Errorf("%s: round trips %q", text, trips)
		}
		w.carry("orders", "read-secret=2*error->off")
		w.ready("orders")
		if w.mustLogIn("orders"); w.password("orders") != password {
			t.Errorf("%s: the password changed", text)
		}
		w.settle()
		w.trips.take()
	}
}

func TestScenarioSecretNotApplied(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	w.create("orders", scenario("apply-secret=error"))
	w.wait("orders", v1alpha1.ReasonSecretApplyFailed)
	if got, want := w.message("orders"), "The Secret could not be applied."; got != want || w.secret("orders") != nil {
		t.Errorf("message %q, want %q, and no Secret", got, want)
	}
	w.carry("orders", "apply-secret=2*error")
	w.ready("orders")
	w.mustLogIn("orders")
	first := w.secret("orders")

	w.carry("orders", "apply-secret=3*error")
	w.wait("orders", v1alpha1.ReasonSecretApplyFailed)
	w.ready("orders")
	w.mustLogIn("orders")
	if now := w.secret("orders"); now.UID != first.UID || string(now.Data["password"]) != string(first.Data["password"]) {
		t.Error("another Secret, or another password")
	}
}

// TestScenarioSecretRace: while there is no Secret each conflict makes another password; the last one is the role's.
func TestScenarioSecretRace(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	w.create("orders", scenario("apply-secret=2*conflict"))
	w.ready("orders")
	w.mustLogIn("orders")
	if events := w.events("orders"); len(events) > 0 {
		t.Errorf("it wasn't done there and then; events: %q", events)
	}
	set := 0
	for _, trip := range w.trips.take() {
		if strings.Contains(trip, "CREATE ROLE") || strings.Contains(trip, "ALTER ROLE") {
			set++
		}
	}
	if set != 3 {
		t.Errorf("a password was set %d times, want 3", set)
	}

	// Where the Secret is there all the time its password stays.
	password := w.password("orders")
	w.carry("orders", "apply-secret=4*conflict")
	w.eventually("the Secret carries it", func() bool {
		return w.secret("orders").Annotations[v1alpha1.FailureScenarioAnnotation] == "apply-secret=4*conflict"
	})
	w.ready("orders")
	if w.mustLogIn("orders"); w.password("orders") != password {
		t.Error("the password changed")
	}
	w.carry("orders", "apply-secret=conflict")
	w.wait("orders", v1alpha1.ReasonSecretApplyFailed)
	if got, want := w.message("orders"), "The Secret is deleted or replaced faster than it can be applied."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// TestScenarioSecretDeletedMeanwhile: somebody deletes the Secret while its apply is delayed.
func TestScenarioSecretDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	w.create("orders")
	w.ready("orders")
	old := w.secret("orders")
	w.settle()
	w.carry("orders", "apply-secret=1*delay(3s)")
	time.Sleep(time.Second)
	if err := w.Client.Delete(w.Context(), old); err != nil {
		t.Fatal(err)
	}
	w.eventually("a new Secret", func() bool { return w.secret("orders") != nil })
	w.settle()
	w.ready("orders")
	w.mustLogIn("orders")
	if w.password("orders") == string(old.Data["password"]) || w.logIn(old) == nil {
		t.Error("the old password came back, or still logs in")
	}
	if events := w.events("orders"); len(events) > 0 {
		t.Errorf("it wasn't done there and then; events: %q", events)
	}
}

// TestScenarioCarried: the Secret carries what the Database carries, and rests in between.
func TestScenarioCarried(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	w.create("orders")
	w.ready("orders")
	first := w.secret("orders")
	carried := func() string { return w.secret("orders").Annotations[v1alpha1.FailureScenarioAnnotation] }
	rests := func() {
		t.Helper()
		w.settle()
		before := w.secret("orders").ResourceVersion
		w.requests.take()
		w.settleQuick(func() { w.touch("orders", "after "+before) })
		w.settle()
		reads, writes := w.requests.take()
		if now := w.secret("orders").ResourceVersion; now != before || len(reads)+len(writes) > 0 {
			t.Errorf("a look at a settled Database: reads %q, writes %q, resourceVersion %s and then %s", reads, writes, before, now)
		}
	}
	rests()
	for _, text := range []string{"drop=1*error", "drop=2*error"} {
		w.carry("orders", text)
		w.eventually("the Secret carries "+text, func() bool { return carried() == text })
		rests()
	}
	update(w, "orders-postgres", &corev1.Secret{}, func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.FailureScenarioAnnotation) })
	w.eventually("it is put back", func() bool { return carried() == "drop=2*error" })
	w.carry("orders", "")
	w.eventually("the annotation is off", func() bool { return carried() == "" })
	rests()
	now := w.secret("orders")
	if diff := cmp.Diff(first.Data, now.Data); diff != "" || now.UID != first.UID {
		t.Error("the Secret isn't what it was before")
	}
	if diff := cmp.Diff(first.Annotations, now.Annotations); diff != "" {
		t.Error(diff)
	}

	// What somebody writes there where the Database has none is theirs, and nothing reads it.
	update(w, "orders-postgres", &corev1.Secret{}, func(s *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.FailureScenarioAnnotation, "provision=error")
	})
	rests()
	w.ready("orders")
	if carried() != "provision=error" {
		t.Error("another's annotation was taken off")
	}
}

// TestScenarioForeignSecret: the annotation doesn't make a Secret the Database's.
func TestScenarioForeignSecret(t *testing.T) {
	t.Parallel()
	w := newRehearsal(t)
	w.start()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders-postgres",
		Annotations: map[string]string{v1alpha1.FailureScenarioAnnotation: "drop=error"}}, Data: map[string][]byte{"password": []byte("not yours")}}
	if err := w.Client.Create(w.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.create("orders", scenario("drop=error"))
	w.wait("orders", v1alpha1.ReasonSecretConflict)
	w.settle()
	if now := w.secret("orders"); now.ResourceVersion != foreign.ResourceVersion {
		t.Error("another's Secret was written")
	}
}

func TestScenarioDropFails(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"error", "conflict"} {
		t.Run(outcome, func(t *testing.T) {
			w := newRehearsal(t)
			w.start()
			name := w.create("orders", deletePolicy, scenario("drop="+outcome)).Spec.Name
			w.ready("orders")
			w.delete("orders")
			db := w.wait("orders", v1alpha1.ReasonPostgresUnavailable)
			time.Sleep(time.Second)
			if role, database := w.exists(name); !role || !database || len(db.Finalizers) != 1 {
				t.Errorf("role %v, database %v, finalizers %v: want all of them", role, database, db.Finalizers)
			}
			w.carry("orders", "drop=2*"+outcome)
			w.gone("orders")
			if role, database := w.exists(name); role || database {
				t.Errorf("left: role %v, database %v", role, database)
			}
			w.eventually("the Secret went with its owner", func() bool { return w.secret("orders") == nil })
		})
	}
}

// TestScenarioDropAndRetain: spec.deletionPolicy becomes Retain while a drop is on its way. One that fails isn't tried
// again; one that succeeds was asked for when it began.
func TestScenarioDropAndRetain(t *testing.T) {
	t.Parallel()
	for text, stays := range map[string]bool{"drop=1*error(3s)": true, "drop=1*delay(3s)": false} {
		t.Run(text, func(t *testing.T) {
			w := newRehearsal(t)
			w.start()
			name := w.create("orders", deletePolicy, scenario(text)).Spec.Name
			w.ready("orders")
			w.settle()
			w.delete("orders")
			time.Sleep(time.Second)
			update(w, "orders", &v1alpha1.Database{}, func(db *v1alpha1.Database) { db.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
			if role, database := w.exists(name); !role || !database {
				t.Fatal("dropped within the delay")
			}
			w.gone("orders")
			if role, database := w.exists(name); role != stays || database != stays {
				t.Errorf("role %v, database %v, want %v", role, database, stays)
			}
		})
	}
}
