package dedicated

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// ward is where standbys are cloned anew: the claims are in an API server, Patroni is one of the test's.
type ward struct {
	*testing.T
	*Reconciler
	api      client.Client
	db       *databasev1.Database
	patroni  *fakePatroni
	recorder *events.FakeRecorder
	began    time.Time
}

func newWard(t *testing.T, claims ...string) *ward {
	t.Helper()
	api := testenv.Get(t).Client()
	w := &ward{T: t, api: api, patroni: newFakePatroni(t), recorder: events.NewFakeRecorder(100), began: time.Now().UTC().Truncate(time.Second)}
	w.db = &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace(t, api), Name: "a", UID: "a"}}
	w.Reconciler = &Reconciler{Client: api, Live: api, FieldManager: "test", Recorder: w.recorder, Dial: reachPatroni(w.patroni)}
	for _, name := range claims {
		claim := claim("1Gi", "1Gi")
		claim.Namespace, claim.Name, claim.Status = w.db.Namespace, name, corev1.PersistentVolumeClaimStatus{}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
		if err := api.Create(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// look is one look at the members, so long after the beginning.
func (w *ward) look(after time.Duration, members ...string) *problem {
	w.Helper()
	return w.lookAt(after, pods(members...))
}

func (w *ward) lookAt(after time.Duration, o *observed) *problem {
	w.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := w.api.List(w.Context(), &claims, client.InNamespace(w.db.Namespace)); err != nil {
		w.Fatal(err)
	}
	o.claims = claims.Items
	return w.recloneStuck(w.Context(), w.db, o, w.patroni.secret(), w.began.Add(after))
}

// note is when the claim says that it was filled anew, counted from the beginning; "" for never.
func (w *ward) note(claim string) string {
	w.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := w.api.Get(w.Context(), client.ObjectKey{Namespace: w.db.Namespace, Name: claim}, c); err != nil {
		w.Fatal(err)
	}
	at, noted := c.Annotations[recloneAnnotation]
	if !noted {
		return ""
	}
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		w.Fatal(err)
	}
	return when.Sub(w.began).String()
}

func said(p *problem) string {
	if p == nil {
		return ""
	}
	return p.reason + ": " + p.message
}

// TestReclone follows a standby that never comes to stream through two hours.
func TestReclone(t *testing.T) {
	t.Parallel()
	w := newWard(t, "data-a-0", "data-a-1")
	again := "ReplicaStuck: a-1 does not stream, although it was cloned anew at " + w.began.Add(5*time.Minute).Format(time.RFC3339) +
		": see kubectl describe pod a-1 and kubectl logs a-1 -c postgres. If its data is broken, delete its claim data-a-1 and then the pod, and it begins from nothing."
	for _, look := range []struct {
		after time.Duration
		say   string
		order string
		noted string
	}{
		{0, "", "", ""},
		{5*time.Minute - time.Second, "", "", ""},
		{5 * time.Minute, "RollingOut: a-1 is cloned anew.", `a-1 reinitialize {"force":true}`, "5m0s"},
		{6 * time.Minute, again, "", "5m0s"},
		{65*time.Minute - time.Second, again, "", "5m0s"},
		{65 * time.Minute, "RollingOut: a-1 is cloned anew.", `a-1 reinitialize {"force":true}`, "1h5m0s"},
		{66 * time.Minute, strings.Replace(again, w.began.Add(5*time.Minute).Format(time.RFC3339), w.began.Add(65*time.Minute).Format(time.RFC3339), 1), "", "1h5m0s"},
	} {
		p := w.look(look.after, "primary", "standby silent")
		if said(p) != look.say || p != nil && p.err != nil {
			t.Errorf("after %s: %q, %+v; want %q", look.after, said(p), p, look.say)
		}
		if order := w.patroni.take(); order != look.order {
			t.Errorf("after %s: asks %q, want %q", look.after, order, look.order)
		}
		if noted := w.note("data-a-1"); noted != look.noted {
			t.Errorf("after %s: noted %q, want %q", look.after, noted, look.noted)
		}
		if event := taken(w.recorder); strings.Contains(event, "Recloning The standby a-1 has not come to stream for 5m0s") != (look.order != "") {
			t.Errorf("after %s: the events %q", look.after, event)
		}
	}
	if noted := w.note("data-a-0"); noted != "" {
		t.Errorf("the primary's claim is noted as filled anew, %s", noted)
	}
}

// TestRecloneOnlyWhereItHelps: not where there is nothing to copy from, nor what has begun to stream, nor what nobody can tell.
func TestRecloneOnlyWhereItHelps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		before []string // at first
		after  []string // six minutes later
		change func(w *ward)
		say    string
	}{
		{"one that streams", []string{"primary", "standby"}, []string{"primary", "standby"}, nil, ""},
		{"one that streams by now", []string{"primary", "standby silent"}, []string{"primary", "standby"}, nil, ""},
		{"one that stopped just now", []string{"primary", "standby"}, []string{"primary", "standby silent"}, nil, ""},
		{"nobody leads", []string{"standby silent", "standby silent"}, []string{"standby silent", "standby silent"}, nil, ""},
		{"nobody led until now", []string{"standby silent", "standby silent"}, []string{"primary", "standby silent"}, nil, ""},
		{"the primary isn't ready", []string{"primary broken", "standby silent"}, []string{"primary broken", "standby silent"}, nil, ""},
		{"one without a claim", []string{"primary", "missing", "standby silent"}, []string{"primary", "missing", "standby silent"}, nil, ""},
		{"another time", []string{"primary", "standby silent"}, []string{"primary", "standby silent"},
			func(w *ward) { w.StuckAfter = 7 * time.Minute }, ""},
		{"one whose Patroni can't be reached", []string{"primary", "standby silent"}, []string{"primary", "standby silent"},
			func(w *ward) { w.patroni.set(func() { w.patroni.silent = "a-1" }) },
			"ReplicaStuck: a-1 does not stream, and Patroni in it doesn't answer: see kubectl describe pod a-1"},
	} {
		w := newWard(t, "data-a-0", "data-a-1")
		if c.change != nil {
			c.change(w)
		}
		first, second := w.look(0, c.before...), w.look(6*time.Minute, c.after...)
		if first != nil || (second != nil) != (c.say != "") || !strings.HasPrefix(said(second), c.say) {
			t.Errorf("%s: %q, then %q; want %q", c.what, said(first), said(second), c.say)
		}
		if order, noted := w.patroni.take(), w.note("data-a-1"); order != "" || noted != "" {
			t.Errorf("%s: asks %q, noted %q", c.what, order, noted)
		}
	}
}

// TestRecloneOneAtATime: of two standbys that don't stream, one goes on with what it has, until the other streams, or
// has had its time and doesn't.
func TestRecloneOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWard(t, "data-a-0", "data-a-1", "data-a-2")
	members := []string{"primary", "standby silent", "standby silent"}
	w.look(0, members...)
	for i, want := range []string{`a-1 reinitialize {"force":true}`, "", ""} {
		w.look(5*time.Minute+time.Duration(i)*time.Minute, members...)
		if order := w.patroni.take(); order != want {
			t.Errorf("look %d: asks %q, want %q", i, order, want)
		}
	}
	if first, second := w.note("data-a-1"), w.note("data-a-2"); first == "" || second != "" {
		t.Errorf("noted %q and %q", first, second)
	}
	// Once the first one serves it is the second one's turn.
	w.look(8*time.Minute, "primary", "standby", "standby silent")
	if order := w.patroni.take(); order != `a-2 reinitialize {"force":true}` {
		t.Errorf("then it asks %q", order)
	}

	w = newWard(t, "data-a-0", "data-a-1", "data-a-2")
	w.look(0, members...)
	w.look(5*time.Minute, members...)
	w.patroni.take()
	copies := pods(members...)
	copies.pods[1].Annotations["status"] = strings.Replace(copies.pods[1].Annotations["status"], `"running"`, `"creating replica"`, 1)
	copies.pods[1].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if p := w.lookAt(15*time.Minute, copies); said(p) != "ReplicaStuck: a-2 does not stream, and waits for its turn to be cloned anew." {
		t.Errorf("while a-1 copies: %q", said(p))
	}
	// The first one has copied everything, and doesn't stream all the same.
	if p := w.look(16*time.Minute, members...); said(p) != "RollingOut: a-2 is cloned anew." {
		t.Errorf("a-1 has had its time: %q", said(p))
	}
	if order := w.patroni.take(); order != `a-2 reinitialize {"force":true}` {
		t.Errorf("at last it asks %q", order)
	}
}

// TestRecloneRefused: what wasn't done isn't noted, and is tried again.
func TestRecloneRefused(t *testing.T) {
	t.Parallel()
	w := newWard(t, "data-a-0", "data-a-1")
	w.look(0, "primary", "standby silent")
	w.patroni.set(func() { w.patroni.refuses = true })
	p := w.look(5*time.Minute, "primary", "standby silent")
	if p == nil || p.reason != databasev1.ReasonRollingOut || p.err == nil || !strings.Contains(p.err.Error(), `refuses "reinitialize"`) {
		t.Errorf("%+v", p)
	}
	if noted, event := w.note("data-a-1"), taken(w.recorder); noted != "" || event != "" {
		t.Errorf("a refusal leaves the note %q and the events %q", noted, event)
	}
	w.patroni.set(func() { w.patroni.refuses = false })
	if p := w.look(6*time.Minute, "primary", "standby silent"); p == nil || p.err != nil {
		t.Errorf("%+v", p)
	}
	if noted := w.note("data-a-1"); noted != "6m0s" {
		t.Errorf("the note is %q", noted)
	}
}

// TestIdleMembers: which standbys could do their work.
func TestIdleMembers(t *testing.T) {
	for _, c := range []struct {
		what   string
		words  string
		state  string
		status corev1.ContainerStatus
		want   bool
	}{
		{"it runs and doesn't stream", "standby silent", "running", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, true},
		{"Patroni hasn't said anything", "standby down", "", corev1.ContainerStatus{RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, false},
		{"it ended after it ran", "standby down", "running", corev1.ContainerStatus{RestartCount: 1,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}, true},
		{"it copies", "standby down", "creating replica", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, false},
		{"it never ran", "standby down", "", corev1.ContainerStatus{}, false},
		{"it streams", "standby", "running", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, false},
	} {
		o := pods("primary", c.words)
		pod := &o.pods[1]
		c.status.Name = postgresContainer
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{c.status}
		pod.Annotations["status"] = strings.Replace(pod.Annotations["status"], `"running"`, fmt.Sprintf("%q", c.state), 1)
		if got := o.isIdle(pod); got != c.want {
			t.Errorf("%s: idle %t", c.what, got)
		}
	}
}
