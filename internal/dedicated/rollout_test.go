package dedicated

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

const settled = "Everything that the spec wishes has been carried out."

// request lets the spec ask for other resources, and so for other pods.
func (s *stage) request(memory string) {
	s.Helper()
	db := &databasev1.Database{}
	s.change("a", db, func() {
		db.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
	})
}

// TestRollOut follows a change through three members by what UpToDate says at each look.
func TestRollOut(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3).withPostgres()
	for _, name := range []string{"a-0", "a-1", "a-2"} {
		s.stream(name, 0)
	}
	s.play("primary", "standby", "standby synchronous")
	if said := s.look(); said != settled {
		t.Fatalf("at first: %s", said)
	}
	if claim := s.observed().latest(); claim == nil || claim.Name != "data-a-0" {
		t.Errorf("the claim that is noted as the primary's is %v", claim)
	}
	s.happened()
	s.request("64Mi")
	for _, step := range []struct {
		say    string   // at this look
		order  string   // to Patroni
		event  string   // its reason
		become []string // the members after it
	}{
		{"0 of 3 replicas are as the spec wishes; the StatefulSet is told.", "", "RollingOut", nil},
		{"0 of 3 replicas are as the spec wishes; a-2 is restarted.", "", "Restarting The pod a-2 is restarted: its image, resources or placement changed.", nil},
		{"1 of 3 replicas are as the spec wishes; a-2 is not ready.", "", "PodsStarting", []string{"primary", "standby", "standby synchronous"}},
		{"1 of 3 replicas are as the spec wishes; a-1 is restarted.", "", "Restarting The pod a-1 is restarted", nil},
		{"2 of 3 replicas are as the spec wishes; a-1 is not ready.", "", "PodsStarting", []string{"primary", "standby", "standby synchronous"}},
		{"2 of 3 replicas are as the spec wishes; the primary moves from a-0 to a-2.", `a-0 switchover {"candidate":"a-2","leader":"a-0"}`,
			"Switchover The primary moved from a-0 to a-2, for a planned change.", []string{"standby", "standby synchronous", "primary"}},
		{"2 of 3 replicas are as the spec wishes; a-0 is restarted.", "", "Restarting The pod a-0 is restarted", nil},
		{"2 of 3 replicas are ready.", "", "PodsStarting", []string{"standby", "standby synchronous", "primary"}},
		{settled, "", "Provisioned", nil},
	} {
		if said := s.look(); said != step.say {
			t.Fatalf("it says %q, want %q", said, step.say)
		}
		if order := s.patroni.take(); order != step.order {
			t.Errorf("%s: asks Patroni %q, want %q", step.say, order, step.order)
		}
		if happened := s.happened(); !strings.Contains(happened, step.event) {
			t.Errorf("%s: the events %q, want %q", step.say, happened, step.event)
		}
		s.settle()
		if step.become != nil {
			s.play(step.become...)
		}
	}
	if claim := s.observed().latest(); claim == nil || claim.Name != "data-a-2" {
		t.Errorf("the claim that is noted last as the primary's is %v", claim)
	}
	wanted, err := restartHash(s.database(), "postgres:17")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range s.observed().pods {
		if pod.Annotations[restartAnnotation] != wanted {
			t.Errorf("%s is not as the spec wishes", pod.Name)
		}
	}
}

// TestRollOutIsHeld: no pod is given up while another one doesn't do its work, or lacks more of the log than a file of it.
func TestRollOutIsHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3).withPostgres()
	stop := s.stream("a-1", 0)
	s.play("primary", "standby", "standby synchronous")
	s.look()
	s.request("64Mi")
	s.look() // which tells the StatefulSet
	uids := func() (all []string) {
		for _, pod := range s.observed().pods {
			all = append(all, string(pod.UID))
		}
		return all
	}
	s.settle()
	before := uids()
	const none = "0 of 3 replicas are as the spec wishes; "
	for _, c := range []struct {
		say     string
		members []string
		lacks   int64 // of the log, by a-1; less than 0 where it doesn't stream
	}{
		{none + "a-1 does not stream.", []string{"primary", "standby silent", "standby synchronous"}, 0},
		{none + "a-1 is not ready.", []string{"primary", "standby blinked", "standby synchronous"}, 0},
		{none + "a-0 is not ready.", []string{"primary blinked", "standby", "standby synchronous"}, 0},
		{none + "a-1 has to catch up.", []string{"primary", "standby", "standby synchronous"}, lagLimit + 1<<20},
		{none + "a-1 has to catch up.", []string{"primary", "standby", "standby synchronous"}, -1},
	} {
		stop()
		if c.lacks >= 0 {
			stop = s.stream("a-1", uint64(c.lacks))
		}
		s.play(c.members...)
		if said := s.look(); !strings.Contains(said, c.say) {
			t.Errorf("%v: it says %q, want %q", c.members, said, c.say)
		}
		if diff := cmp.Diff(before, uids()); diff != "" {
			t.Fatalf("%s: %s", c.say, diff)
		}
	}
	s.stream("a-1", lagLimit-1<<20)
	if said := s.look(); said != none+"a-2 is restarted." {
		t.Errorf("with a lag that is small enough it says %q", said)
	}
}

// TestRollOutOfOne: what a single member's next start has to replay is short.
func TestRollOutOfOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1).withPostgres()
	s.play("primary")
	s.look()
	s.request("64Mi")
	before := s.checkpoints()
	for _, say := range []string{
		"0 of 1 replicas are as the spec wishes; the StatefulSet is told.", "0 of 1 replicas are as the spec wishes; a-0 is restarted.",
	} {
		if n := s.checkpoints(); n != before {
			t.Errorf("%d checkpoints before the restart", n-before)
		}
		if said := s.look(); said != say {
			t.Errorf("it says %q, want %q", said, say)
		}
		s.settle()
	}
	if n := s.checkpoints(); n != before+1 {
		t.Errorf("%d checkpoints for the restart, want one", n-before)
	}
}

// TestRollOutDeletesWhatItSaw: no pod that would come back by the old template, and none that came in another one's place.
func TestRollOutDeletesWhatItSaw(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	s.settle()
	is := s.observed().pods[0].UID
	for _, c := range []struct {
		what   string
		change func(o *observed)
		say    string
		fails  bool
	}{
		{"there is no StatefulSet", func(o *observed) { o.set = nil }, "", false},
		{"the pod is as the spec wishes", func(o *observed) { o.pods[0].Annotations[restartAnnotation] = "wanted" }, "", false},
		{"the StatefulSet has another template", func(o *observed) { o.set.Spec.Template.Annotations[restartAnnotation] = "older" },
			"0 of 1 replicas are as the spec wishes; the StatefulSet is told.", false},
		{"its controller hasn't seen the template", func(o *observed) { o.set.Status.ObservedGeneration-- },
			"0 of 1 replicas are as the spec wishes; the StatefulSet is told.", false},
		{"another pod has the name by now", func(o *observed) { o.pods[0].UID = "another" }, "0 of 1 replicas are as the spec wishes; a-0 is restarted.", true},
		{"the pod is gone", func(o *observed) { o.pods[0].Name = "a-9" }, "0 of 1 replicas are as the spec wishes; a-9 is restarted.", false},
	} {
		o, said := s.observed(), ""
		o.set.Spec.Template.Annotations[restartAnnotation] = "wanted"
		c.change(o)
		p := s.rollOut(t.Context(), s.database(), o, s.superuserSecret(), "wanted")
		if p != nil {
			said = p.message
		}
		if said != c.say || p != nil && (p.err != nil) != c.fails {
			t.Errorf("%s: %q, %+v; want %q", c.what, said, p, c.say)
		}
		s.settle()
		if now := s.observed().pods[0].UID; now != is {
			t.Fatalf("%s: the pod was deleted", c.what)
		}
	}
}

// TestEverStarted: a pod that never served may be replaced for anything; one that served, and doesn't now, has data that may be
// the latest.
func TestEverStarted(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(status int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: status}}
	}
	for _, c := range []struct {
		what   string
		status corev1.ContainerStatus
		want   bool
	}{
		{"it serves", corev1.ContainerStatus{Started: new(true), State: running}, true},
		{"it begins", corev1.ContainerStatus{Started: new(false), State: running}, true},
		{"it begins again", corev1.ContainerStatus{RestartCount: 1, State: running, LastTerminationState: ended(1)}, true},
		{"it refused, and begins again", corev1.ContainerStatus{RestartCount: 1, State: running, LastTerminationState: ended(launcher.ExitRefused)}, false},
		{"it refused", corev1.ContainerStatus{RestartCount: 1, LastTerminationState: ended(launcher.ExitRefused)}, false},
		{"it ended", corev1.ContainerStatus{RestartCount: 1, LastTerminationState: ended(0)}, true},
		{"nobody knows how it ended", corev1.ContainerStatus{RestartCount: 1}, false},
		{"it waits", corev1.ContainerStatus{Started: new(false), State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}, false},
	} {
		c.status.Name = postgresContainer
		if got := everStarted(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c.status}}}); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
	other := corev1.ContainerStatus{Name: installContainer, Started: new(true), State: running}
	if everStarted(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{other}}}) {
		t.Error("another container counts")
	}
}

// TestLagging: whom the next step waits for.
func TestLagging(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1).withPostgres()
	s.stream("a-1", 0)
	s.stream("a-2", lagLimit+1<<20)
	s.stream("a-3", lagLimit-1<<20)
	for _, c := range []struct {
		what     string
		members  []string
		restart  int
		password string
		want     string
		fails    bool
	}{
		{"none lacks much", []string{"primary", "standby"}, 0, s.password(), "", false},
		{"one does", []string{"primary", "standby", "standby"}, 1, s.password(), "a-2 has to catch up", false},
		{"the one that is restarted does", []string{"primary", "standby", "standby"}, 2, s.password(), "", false},
		{"one is just near enough", []string{"primary", "standby", "missing", "standby"}, 0, s.password(), "", false},
		{"one isn't there at all", []string{"primary", "standby", "missing", "missing", "standby"}, 1, s.password(), "a-4 has to catch up", false},
		{"nobody leads", []string{"standby", "standby"}, 0, s.password(), "there is no primary", false},
		{"it can't be asked", []string{"primary", "standby"}, 0, "wrong", "the standbys' lag can't be read", true},
	} {
		o := pods(c.members...)
		secret := s.superuserSecret()
		secret.Data["superuser-password"] = []byte(c.password)
		held, err := s.lagging(t.Context(), o, secret, &o.pods[c.restart])
		if held != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, error %v; want %q", c.what, held, err, c.want)
		}
	}
}

// TestRestartInPlace: a parameter that waits for a start is set in the standbys first. The primary is restarted where a value
// goes down, and else moved, which restarts it as well.
func TestRestartInPlace(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1).withPostgres()
	s.stream("a-1", 0)
	db := s.database()
	for _, c := range []struct {
		what    string
		members []string
		late    string // the member whose annotation says other than it does itself
		silent  string // the member that says nothing
		behind  string // the member that hasn't replayed the primary's log
		refuses bool
		again   bool // without forgetting who was asked
		want    string
		orders  string
	}{
		{"nothing waits", []string{"primary", "standby"}, "", "", "", false, false, "", ""},
		{"a standby first", []string{"primary pending", "standby pending"}, "", "", "", false, false,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", `a-1 restart {"restart_pending":true}`},
		{"then the primary, whose value the standby waits for", []string{"primary pending", "standby pending"}, "", "", "", false, true,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-0 is restarted for a parameter.", `a-0 restart {"restart_pending":true}`},
		{"then the standby once more", []string{"primary pending", "standby pending"}, "", "", "", false, true,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", `a-1 restart {"restart_pending":true}`},
		{"then nobody, where Patroni keeps the flags", []string{"primary pending", "standby pending"}, "", "", "", false, true,
			"0 of 2 replicas are as the spec wishes; PostgreSQL has to be restarted for a parameter.", ""},
		{"a primary whose standby has the value moves", []string{"primary pending", "standby"}, "", "", "", false, false,
			"1 of 2 replicas are as the spec wishes; the primary moves from a-0 to a-1.", `a-0 switchover {"candidate":"a-1","leader":"a-0"}`},
		{"one that has it by its own word", []string{"primary pending", "standby pending"}, "a-1", "", "", false, false,
			"1 of 2 replicas are as the spec wishes; the primary moves from a-0 to a-1.", `a-0 switchover {"candidate":"a-1","leader":"a-0"}`},
		{"all have it by their own word", []string{"primary", "standby pending"}, "a-1", "", "", false, false, "", ""},
		{"a standby", []string{"primary pending", "standby pending"}, "", "", "", false, false,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", `a-1 restart {"restart_pending":true}`},
		{"then the primary moves, where the standby has it by its own word", []string{"primary pending", "standby pending"}, "a-1", "", "", false, true,
			"1 of 2 replicas are as the spec wishes; the primary moves from a-0 to a-1.", `a-0 switchover {"candidate":"a-1","leader":"a-0"}`},
		{"a standby that waits by its own word comes before the primary", []string{"primary pending", "standby"}, "a-1", "", "", false, false,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", `a-1 restart {"restart_pending":true}`},
		{"nobody while one doesn't answer", []string{"primary pending", "standby"}, "", "a-1", "", false, false,
			"1 of 2 replicas are as the spec wishes; Patroni in a-1 does not answer.", ""},
		{"nor while one is down", []string{"primary pending", "standby pending", "standby down"}, "", "", "", false, false,
			"1 of 3 replicas are as the spec wishes; a-2 is not ready.", ""},
		{"one that has to catch up", []string{"primary", "standby pending", "standby"}, "", "", "", false, false,
			"2 of 3 replicas are as the spec wishes; a-2 has to catch up.", ""},
		{"a single one that doesn't lead yet", []string{"standby pending"}, "", "", "a-0", false, false,
			"0 of 1 replicas are as the spec wishes; PostgreSQL in a-0 is restarted for a parameter.", `a-0 restart {"restart_pending":true}`},
		{"a single one", []string{"primary pending"}, "", "", "", false, false,
			"0 of 1 replicas are as the spec wishes; PostgreSQL in a-0 is restarted for a parameter.", `a-0 restart {"restart_pending":true}`},
		{"a single one is asked once", []string{"primary pending"}, "", "", "", false, true,
			"0 of 1 replicas are as the spec wishes; PostgreSQL has to be restarted for a parameter.", ""},
		{"one that refuses", []string{"primary pending"}, "", "", "", true, false,
			"0 of 1 replicas are as the spec wishes; PostgreSQL in a-0 is restarted for a parameter.", ""},
		{"one that refused is left alone for a while", []string{"primary pending"}, "", "", "", false, true,
			"0 of 1 replicas are as the spec wishes; a-0 refused to restart PostgreSQL; it is asked again within a minute.", ""},
		{"a standby that refuses", []string{"primary pending", "standby pending"}, "", "", "", true, false,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", ""},
		{"it isn't left behind", []string{"primary pending", "standby pending"}, "", "", "", false, true,
			"0 of 2 replicas are as the spec wishes; a-1 refused to restart PostgreSQL; it is asked again within a minute.", ""},
		{"a standby before it has the primary's value", []string{"primary", "standby pending"}, "", "", "a-1", false, false,
			"1 of 2 replicas are as the spec wishes; a-1 has to catch up.", ""},
		{"and then", []string{"primary", "standby pending"}, "", "", "", false, true,
			"1 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", `a-1 restart {"restart_pending":true}`},
		{"a value that goes up needs no log", []string{"primary pending", "standby pending"}, "", "", "a-1", false, false,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", `a-1 restart {"restart_pending":true}`},
		{"once the primary has moved, the same value may come again", []string{"primary pending", "standby"}, "", "", "", false, true,
			"1 of 2 replicas are as the spec wishes; the primary moves from a-0 to a-1.", `a-0 switchover {"candidate":"a-1","leader":"a-0"}`},
		{"and is set in the standby first", []string{"primary pending", "standby pending"}, "", "", "", false, true,
			"0 of 2 replicas are as the spec wishes; PostgreSQL in a-1 is restarted for a parameter.", `a-1 restart {"restart_pending":true}`},
	} {
		if !c.again {
			s.restarts.forget(db.UID)
		}
		o, got := pods(c.members...), ""
		s.patroni.set(func() {
			s.patroni.pending, s.patroni.silent, s.patroni.refuses, s.patroni.leads, s.patroni.behind = nil, c.silent, c.refuses, "", c.behind
			for i := range o.pods {
				if name := o.pods[i].Name; memberOf(&o.pods[i]).PendingRestart != (name == c.late) {
					s.patroni.pending = append(s.patroni.pending, name)
				}
			}
		})
		o.sync = []string{"a-1"}
		p := s.restartInPlace(t.Context(), db, o, s.superuserSecret())
		if p != nil {
			got = p.message
		}
		if got != c.want || p != nil && (p.err != nil) != (c.refuses || c.silent != "") {
			t.Errorf("%s: %q, error %+v; want %q", c.what, got, p, c.want)
		}
		if orders := s.patroni.take(); orders != c.orders {
			t.Errorf("%s: asks %q, want %q", c.what, orders, c.orders)
		}
	}
}

// TestRestartUnheard: a member whose answer is lost is asked again, and that it is restarted is told once.
func TestRestartUnheard(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	db, o := s.database(), pods("primary pending")
	s.happened()
	s.patroni.set(func() { s.patroni.pending, s.patroni.lost = []string{"a-0"}, true })
	const order = `a-0 restart {"restart_pending":true}`
	for i, want := range []string{order, order, order, ""} {
		p := s.restartInPlace(t.Context(), db, o, s.superuserSecret())
		if orders := s.patroni.take(); orders != want || p == nil || (p.err != nil) != (i < 2) {
			t.Errorf("look %d: asks %q, want %q; %+v", i, orders, want, p)
		}
		s.patroni.set(func() { s.patroni.lost = i < 1 })
	}
	if got := s.happened(); got != "Normal Restarting PostgreSQL in the pod a-0 is restarted for a parameter." {
		t.Errorf("it told %q", got)
	}
	s.restarts.forget(db.UID)
	s.patroni.set(func() { s.patroni.refuses = true })
	p := s.restartInPlace(t.Context(), db, o, s.superuserSecret())
	if got := s.happened(); got != "" || p.err == nil {
		t.Errorf("of one that refuses it told %q, error %v", got, p.err)
	}
}

// TestMovePrimary: only to one that stays and has every acknowledged write.
func TestMovePrimary(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3).withPostgres()
	db := s.database()
	for _, c := range []struct {
		what    string
		members []string
		sync    []string
		below   int
		want    string
		orders  string
	}{
		{"one that has every write", []string{"primary", "standby", "standby"}, []string{"a-2"}, 10, "Moving; the primary moves from a-0 to a-2.", "a-0"},
		{"one that goes", []string{"standby", "standby", "primary"}, []string{"a-1"}, 1,
			"Moving; no standby that stays has every acknowledged write, so that it could be the primary.", ""},
		{"nobody leads", []string{"standby", "standby"}, []string{"a-1"}, 10,
			"Moving; no standby that stays has every acknowledged write, so that it could be the primary.", ""},
	} {
		o, before := pods(c.members...), s.checkpoints()
		o.sync = c.sync
		s.patroni.set(func() { s.patroni.leads = "" })
		s.restarts.ask(db.UID, "before", time.Time{})
		p := s.movePrimary(t.Context(), db, o, s.superuserSecret(), c.below, &problem{message: "Moving."})
		if orders, _, _ := strings.Cut(s.patroni.take(), " "); p.message != c.want || orders != c.orders || p.err != nil {
			t.Errorf("%s: %q, asks %q, error %v; want %q", c.what, p.message, orders, p.err, c.want)
		}
		if n := s.checkpoints() - before; (n == 1) != (c.orders != "") {
			t.Errorf("%s: %d checkpoints", c.what, n)
		}
		if known := s.restarts.asked(db.UID, "before", time.Now()); known == (c.orders != "") {
			t.Errorf("%s: it is known who was asked before: %t", c.what, known)
		}
	}
	s.happened()
	s.patroni.set(func() { s.patroni.refuses = true })
	o := pods("primary", "standby")
	o.sync = []string{"a-1"}
	p := s.movePrimary(t.Context(), db, o, s.superuserSecret(), 10, &problem{message: "Moving."})
	if p.err == nil || !strings.Contains(p.err.Error(), `patroni in the pod "a-0" refuses "switchover": 503 Service Unavailable: not now`) || s.happened() != "" {
		t.Errorf("where Patroni refuses: %v", p.err)
	}
	s.patroni.set(func() { s.patroni.refuses, s.patroni.lost, s.patroni.leads = false, true, "" })
	p = s.movePrimary(t.Context(), db, o, s.superuserSecret(), 10, &problem{message: "Moving."})
	if got := s.happened(); p.err != nil || got != "Normal Switchover The primary moved from a-0 to a-1, for a planned change." {
		t.Errorf("where the answer is lost and the primary has moved: %v, %q", p.err, got)
	}
	s.patroni.take()
	p = s.movePrimary(t.Context(), db, o, s.superuserSecret(), 10, &problem{message: "Moving."})
	if orders, got := s.patroni.take(), s.happened(); p.message != "Moving; the primary has moved to a-1." || orders != "" || got != "" {
		t.Errorf("where only the cache has the old primary: %q, asks %q, tells %q", p.message, orders, got)
	}
}

// TestShrink: members go only once the primary is on one that stays.
func TestShrink(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2).withPostgres()
	s.stream("a-0", 0)
	s.play("standby synchronous", "primary")
	if said := s.look(); said != settled {
		t.Fatalf("at first: %s", said)
	}
	db := &databasev1.Database{}
	s.change("a", db, func() { db.Spec.Replicas = 1 })
	if said := s.look(); said != "The replicas become 1; the primary moves from a-1 to a-0." {
		t.Errorf("it says %q", said)
	}
	s.settle()
	if n := len(s.observed().pods); n != 2 {
		t.Fatalf("%d pods while the primary is to go", n)
	}
	s.play("standby synchronous", "standby")
	if said := s.look(); !slices.Contains(strings.SplitAfter(said, "primary."), "The replicas become 1 once there is a primary.") {
		t.Errorf("without a primary it says %q", said)
	}
	s.play("primary", "standby synchronous")
	if said := s.look(); said != "The replicas become 1." {
		t.Errorf("it says %q", said)
	}
	s.settle()
	if said := s.look(); said != settled {
		t.Errorf("at last it says %q", said)
	}
}
