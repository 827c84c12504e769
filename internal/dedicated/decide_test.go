package dedicated

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// pods makes members "a-0", "a-1", ... from words: "primary", "standby", each also "old" (another template), "down" (never
// ready), "blinked" and "broken" (not ready any more), "silent" (ready, but not streaming), "pending" (needs a restart for a parameter) or "leaving".
func pods(members ...string) *observed {
	o := &observed{}
	for i, words := range members {
		if words == "missing" {
			continue
		}
		name := fmt.Sprintf("a-%d", i)
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{roleLabel: roleReplica},
			Annotations: map[string]string{restartAnnotation: "wanted"}}}
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "revision"
		ready, streaming, pending, since := corev1.ConditionTrue, "streaming", false, time.Time{}
		for _, word := range strings.Fields(words) {
			switch word {
			case "primary":
				o.leader, pod.Labels[roleLabel] = name, rolePrimary
			case "old":
				pod.Annotations[restartAnnotation] = "other"
			case "older":
				pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "another"
			case "down":
				ready, streaming = corev1.ConditionFalse, ""
			case "blinked", "broken": // they worked, and don't for a moment or for long
				ready, streaming, since = corev1.ConditionFalse, "", time.Now().Add(-5*time.Second)
				if word == "broken" {
					since = since.Add(-time.Hour)
				}
			case "silent":
				streaming = ""
			case "pending":
				pending = true
			case "leaving":
				now := metav1.Now()
				pod.DeletionTimestamp = &now
			}
		}
		pod.Annotations["status"] = fmt.Sprintf(`{"state":"running","replication_state":%q,"pending_restart":%t}`, streaming, pending)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
		if ready == corev1.ConditionTrue || !since.IsZero() {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, Started: new(true)}}
		}
		o.pods = append(o.pods, pod)
	}
	return o
}

func TestPlanRoll(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what    string
		members []string
		want    string // the pod to delete; "move" for a primary to be moved first; "" for waiting
		left    int
		held    string
	}{
		{"nothing to do", []string{"primary", "standby"}, "", 0, ""},
		{"a single primary", []string{"primary old"}, "a-0", 1, ""},
		{"a single primary that never came up", []string{"primary old down"}, "a-0", 1, ""},
		{"a single primary that blinked", []string{"primary old blinked"}, "", 1, "a-0 is not ready"},
		{"a single primary that is broken", []string{"primary old broken"}, "a-0", 1, ""},
		{"the last one that works isn't given up for a wish that fails", []string{"primary old broken", "standby down"}, "", 1, "a-0 is not ready"},
		{"nor while nobody leads", []string{"standby old blinked", "standby down"}, "", 1, "a-0 is not ready"},
		{"a broken standby comes first", []string{"primary old", "standby old broken", "standby old"}, "a-1", 3, ""},
		{"members that have to go, go first", []string{"primary old", "standby old", "standby extra"}, "", 2, "3 pods are there, and 2 are to be"},
		{"also before one that is broken", []string{"primary", "standby old broken", "standby extra"}, "", 1, "a-1 is not ready"},
		{"a pod that never came up", []string{"old down"}, "a-0", 1, ""},
		{"standbys before the primary", []string{"primary old", "standby old", "standby old"}, "a-2", 3, ""},
		{"the primary last, once it is moved", []string{"primary old", "standby", "standby"}, "move", 1, ""},
		{"one at a time", []string{"primary old", "standby old", "standby leaving"}, "", 2, "a-2 is ending"},
		{"one that is ending counts until it is gone", []string{"primary old", "standby old", "standby old leaving"}, "", 3, "a-2 is ending"},
		{"also the last one", []string{"primary", "standby old leaving"}, "", 1, "a-1 is ending"},
		{"a standby waits while another one is down", []string{"primary old", "standby old", "standby down"}, "", 2, "a-2 is not ready"},
		{"a standby waits while another one doesn't stream", []string{"primary old", "standby old", "standby silent"}, "", 2, "a-2 does not stream"},
		{"the one that is down comes first", []string{"primary old", "standby old", "standby old down"}, "a-2", 3, ""},
		{"the primary waits while a standby is down", []string{"primary old", "standby down"}, "", 1, "a-1 is not ready"},
		{"a parameter is no cause to delete a pod", []string{"primary pending", "standby"}, "", 0, ""},
		{"a standby waits while another one is missing", []string{"primary old", "standby old", "missing"}, "", 2, "2 pods are there, and 3 are to be"},
		{"the primary waits while its standbys are missing", []string{"primary old", "missing", "missing"}, "", 1, "1 pods are there, and 3 are to be"},
		{"a primary that doesn't serve, when no standby is left to restart", []string{"primary old down", "standby down"}, "a-0", 1, ""},
		{"one that never started, for any other template", []string{"primary", "older down"}, "a-1", 1, ""},
		{"one that started stays for another template", []string{"primary", "older"}, "", 0, ""},
	} {
		step := planRoll(pods(c.members...), "wanted", "revision", len(c.members)-strings.Count(strings.Join(c.members, " "), "extra"), now)
		got := ""
		if step.pod != nil {
			got = step.pod.Name
		}
		if step.move {
			got = "move"
		}
		if got != c.want || step.left != c.left || (step.why == "") != (step.pod == nil) || c.left > 0 && step.held != c.held {
			t.Errorf("%s: %q (%s), %d left, held: %q; want %q, %d left, held: %q", c.what, got, step.why, step.left, step.held, c.want, c.left, c.held)
		}
	}
}

// TestCandidate: with Sync only a standby that has every acknowledged write, and that stays.
func TestCandidate(t *testing.T) {
	for _, c := range []struct {
		what        string
		members     []string
		sync        []string
		below       int
		synchronous bool
		want        string
	}{
		{"the one that has every write", []string{"primary", "standby", "standby"}, []string{"a-2"}, 10, true, "a-2"},
		{"none while none has", []string{"primary", "standby", "standby"}, nil, 10, true, ""},
		{"none that goes", []string{"standby", "standby", "primary"}, []string{"a-1"}, 1, true, ""},
		{"any with Async", []string{"primary", "standby"}, nil, 10, false, "a-1"},
		{"none that doesn't stream", []string{"primary", "standby down"}, []string{"a-1"}, 10, true, ""},
	} {
		o, got := pods(c.members...), ""
		o.sync = c.sync
		if pod := o.candidate(c.below, c.synchronous); pod != nil {
			got = pod.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestSynchronous follows a server from one replica to three and back: writes are synchronous as long as there are
// standbys, and all of these are while the primary has to leave its pod.
func TestSynchronous(t *testing.T) {
	for _, c := range []struct {
		what       string
		replicas   int32
		durability databasev1.Durability
		members    []string
		want       bool
		standbys   int
	}{
		{"one", 1, "", []string{"primary"}, false, 1},
		{"growing", 3, databasev1.DurabilitySync, []string{"primary"}, true, 1},
		{"three", 3, databasev1.DurabilitySync, []string{"primary", "standby", "standby"}, true, 1},
		{"shrinking, the primary stays", 1, databasev1.DurabilitySync, []string{"primary", "standby", "standby"}, true, 1},
		{"shrinking, the primary has to move", 1, databasev1.DurabilitySync, []string{"standby", "standby", "primary"}, true, 2},
		{"asynchronous", 3, databasev1.DurabilityAsync, []string{"primary", "standby", "standby"}, false, 1},
	} {
		db := &databasev1.Database{Spec: databasev1.DatabaseSpec{Replicas: c.replicas, Durability: c.durability}}
		o := pods(c.members...)
		if o.synchronous(db) != c.want || o.synchronousStandbys(db) != c.standbys {
			t.Errorf("%s: %t with %d", c.what, o.synchronous(db), o.synchronousStandbys(db))
		}
	}
}

// TestIdle: a standby that copies data isn't stuck, and a primary never is.
func TestIdle(t *testing.T) {
	now := time.Now()
	var s idleSince
	first := s.update("db", []types.UID{"a"}, now)
	later := s.update("db", []types.UID{"a", "b"}, now.Add(time.Minute))
	if !first["a"].Equal(now) || !later["a"].Equal(now) || !later["b"].Equal(now.Add(time.Minute)) {
		t.Errorf("%v, then %v", first, later)
	}
	s.update("db", nil, now)
	if again := s.update("db", []types.UID{"a"}, now.Add(time.Hour)); !again["a"].Equal(now.Add(time.Hour)) || len(s.all) != 1 {
		t.Errorf("one that served meanwhile: %v", again)
	}
	o := pods("primary down", "standby silent", "standby down", "standby", "standby down leaving")
	for i := range o.pods {
		o.pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		want := i == 1 || i == 2
		if o.isIdle(&o.pods[i]) != want {
			t.Errorf("%s: idle %t", o.pods[i].Name, !want)
		}
	}
	o.pods[2].Annotations["status"] = `{"state":"creating replica"}`
	if o.isIdle(&o.pods[2]) {
		t.Error("one that copies data counts as idle")
	}
}

// TestNextRestart follows a parameter through a server: up, down, and where Patroni keeps the flag.
func TestNextRestart(t *testing.T) {
	of := func(o *observed) map[string]bool {
		waiting := map[string]bool{}
		for i := range o.pods {
			waiting[o.pods[i].Name] = memberOf(&o.pods[i]).PendingRestart
		}
		return waiting
	}
	for _, c := range []struct {
		what    string
		members []string
		asked   string // how the keys begin that are remembered: of all, of those that refused, or of a member
		want    string
	}{
		{"nothing pending", []string{"primary", "standby"}, "none", ""},
		{"a single one", []string{"primary pending"}, "none", "a-0"},
		{"a single one whose flag stays", []string{"primary pending"}, "", ""},
		{"a single one that refused", []string{"primary pending"}, "refused", "a-0 refuses"},
		{"standbys first", []string{"primary pending", "standby pending"}, "none", "a-1"},
		{"also below the primary", []string{"standby pending", "primary pending"}, "none", "a-0"},
		{"a standby that refused before the primary", []string{"primary pending", "standby pending"}, "refused uid-a-1", "a-1 refuses"},
		{"also before another standby", []string{"primary pending", "standby pending", "standby pending"}, "refused uid-a-1", "a-1 refuses"},
		{"the primary where only it is left", []string{"primary pending", "standby"}, "none", "a-0"},
		{"a standby that follows the primary", []string{"primary", "standby pending"}, "none", "a-1"},
	} {
		o, got := pods(c.members...), ""
		for i := range o.pods {
			o.pods[i].UID = types.UID("uid-" + o.pods[i].Name)
		}
		pod, refuses := nextRestart(o, of(o), func(key string) bool { return strings.HasPrefix(key, c.asked) })
		if pod != nil {
			got = pod.Name
		}
		if refuses {
			got += " refuses"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	// A standby that was asked while the primary had the old value doesn't keep the primary from its turn.
	o := pods("primary pending", "standby pending")
	key := restartKey(o, of(o), &o.pods[1])
	if pod, _ := nextRestart(o, of(o), func(k string) bool { return k == key }); pod == nil || pod.Name != "a-0" {
		t.Errorf("after the standby was asked, %v is next", pod)
	}
	after := pods("primary", "standby pending")
	if pod, _ := nextRestart(after, of(after), func(k string) bool { return k == key }); pod == nil || pod.Name != "a-1" {
		t.Errorf("after the primary has the new value, %v is next", pod)
	}
}

func claim(request, capacity string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-a-0"},
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(request)}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}},
	}
}

func unbound(c corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaim {
	c.Status.Phase = corev1.ClaimPending
	return c
}

func TestPlanGrowth(t *testing.T) {
	for _, c := range []struct {
		what     string
		size     string
		claims   []corev1.PersistentVolumeClaim
		grow     int
		shrunk   string
		resizing bool
	}{
		{"no claims yet", "1Gi", nil, 0, "0", false},
		{"the same in another unit", "1024Mi", []corev1.PersistentVolumeClaim{claim("1Gi", "1Gi")}, 0, "0", false},
		{"larger, and not bound yet", "2Gi", []corev1.PersistentVolumeClaim{unbound(claim("1Gi", "0"))}, 0, "0", true},
		{"larger", "1500Mi", []corev1.PersistentVolumeClaim{claim("1Gi", "1Gi"), claim("1500Mi", "1500Mi")}, 1, "0", false},
		{"growing", "2Gi", []corev1.PersistentVolumeClaim{claim("2Gi", "1Gi")}, 0, "0", true},
		{"a volume that is larger than asked for", "1Gi", []corev1.PersistentVolumeClaim{claim("1Gi", "2Gi")}, 0, "0", false},
		{"smaller", "1Gi", []corev1.PersistentVolumeClaim{claim("1500Mi", "1500Mi"), claim("2Gi", "2Gi")}, 0, "2Gi", false},
		{"smaller than one and larger than the other", "1500Mi", []corev1.PersistentVolumeClaim{claim("1Gi", "1Gi"), claim("2Gi", "2Gi")}, 1, "2Gi", false},
	} {
		g := planGrowth(resource.MustParse(c.size), c.claims, 3)
		if len(g.grow) != c.grow || g.shrunk.Cmp(resource.MustParse(c.shrunk)) != 0 || g.resizing != c.resizing {
			t.Errorf("%s: %+v", c.what, g)
		}
	}
}

func TestJudge(t *testing.T) {
	running := &tags{Major: 15, CollationVersion: "2.36"}
	for _, c := range []struct {
		what     string
		wanted   launcher.Inspection
		accepted string
		want     string
	}{
		{"a minor version", launcher.Inspection{Major: 15, CollationVersion: "2.36"}, "", ""},
		{"a major version", launcher.Inspection{Major: 17, CollationVersion: "2.36"}, "", databasev1.ReasonMajorUpgradeRequired},
		{"an older major version", launcher.Inspection{Major: 14, CollationVersion: "2.36"}, "", databasev1.ReasonMajorUpgradeRequired},
		{"another collation", launcher.Inspection{Major: 15, CollationVersion: "2.41"}, "", databasev1.ReasonCollationMismatch},
		{"another collation, accepted", launcher.Inspection{Major: 15, CollationVersion: "2.41"}, "2.41", ""},
		{"another collation than the accepted one", launcher.Inspection{Major: 15, CollationVersion: "2.42"}, "2.41", databasev1.ReasonCollationMismatch},
		{"a major version with an accepted collation", launcher.Inspection{Major: 16, CollationVersion: "2.41"}, "2.41", databasev1.ReasonMajorUpgradeRequired},
	} {
		db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{databasev1.AcceptCollationAnnotation: c.accepted}}}
		got := ""
		if p := judge(db, running, &c.wanted); p != nil {
			got = p.reason
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestDiagnose(t *testing.T) {
	waiting := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, Image: "postgres:15",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	ended := func(restarts, status int32, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			waiting("CrashLoopBackOff")(p)
			p.Status.ContainerStatuses[0].RestartCount = restarts
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: status, Message: message}
		}
	}
	for _, c := range []struct {
		what   string
		change func(*corev1.Pod)
		want   string
		stuck  bool
	}{
		{"all is well", func(*corev1.Pod) {}, "", false},
		{"no image", waiting("ImagePullBackOff"), databasev1.ReasonImagePullFailed, true},
		{"a bad image name", waiting("InvalidImageName"), databasev1.ReasonImagePullFailed, true},
		{"a refusal", ended(1, launcher.ExitRefused, `{"reason":"MajorUpgradeRequired","message":"m"}`), databasev1.ReasonMajorUpgradeRequired, true},
		{"a crash loop", ended(3, 1, ""), databasev1.ReasonPodFailing, false},
		{"two crashes", ended(2, 1, ""), databasev1.ReasonPodsStarting, false},
		{"no node", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no nodes"}}
		}, databasev1.ReasonUnschedulable, false},
		{"a node is still being chosen", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
		}, databasev1.ReasonPodsStarting, false},
		{"ready once and without a primary now", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, Started: new(true)}}
		}, databasev1.ReasonNoPrimary, false},
		{"starting", func(p *corev1.Pod) { p.Status.Conditions = nil }, databasev1.ReasonPodsStarting, false},
	} {
		o := pods("primary")
		if c.want != "" && c.want != databasev1.ReasonUnschedulable {
			o.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
			o.pods[0].Status.ContainerStatuses = nil
		}
		c.change(&o.pods[0])
		p := diagnose(&databasev1.Database{Spec: databasev1.DatabaseSpec{Replicas: 1}}, o, time.Now())
		if p == nil {
			p = &problem{}
		}
		if p.reason != c.want || p.stuck != c.stuck {
			t.Errorf("%s: %q, stuck %t; want %q, %t", c.what, p.reason, p.stuck, c.want, c.stuck)
		}
	}
}

func TestHeartbeatsWakeNobody(t *testing.T) {
	before := pods("primary").pods[0]
	beat := before.DeepCopy()
	beat.ResourceVersion = "2"
	beat.Annotations["status"] = strings.Replace(before.Annotations["status"], `"state"`, `"xlog_location":1234,"state"`, 1)
	if podChanged(event.UpdateEvent{ObjectOld: &before, ObjectNew: beat}) {
		t.Error("a pod's heartbeat passes")
	}
	pending := beat.DeepCopy()
	pending.Annotations["status"] = strings.Replace(beat.Annotations["status"], "false", "true", 1)
	if !podChanged(event.UpdateEvent{ObjectOld: beat, ObjectNew: pending}) {
		t.Error("a pending restart doesn't pass")
	}
	leader := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"leader": "a-0", "renewTime": "1", "optime": "1"}}}
	renewed := leader.DeepCopy()
	renewed.Annotations["renewTime"], renewed.Annotations["optime"] = "2", "2"
	if childChanged(event.UpdateEvent{ObjectOld: leader, ObjectNew: renewed}) {
		t.Error("the leader's heartbeat passes")
	}
	renewed.Annotations["leader"] = "a-1"
	if !childChanged(event.UpdateEvent{ObjectOld: leader, ObjectNew: renewed}) {
		t.Error("a change of the leader doesn't pass")
	}
}

func TestIncludes(t *testing.T) {
	live := object{"a": int64(1), "list": []any{object{"x": "1", "default": true}}, "more": "m"}
	for _, c := range []struct {
		wish object
		want bool
	}{
		{object{"a": int64(1)}, true},
		{object{"a": int64(2)}, false},
		{object{"list": []any{object{"x": "1"}}}, true},
		{object{"list": []any{object{"x": "2"}}}, false},
		{object{"list": []any{object{"x": "1"}, object{"x": "2"}}}, false},
		{object{"absent": "", "empty": object{}}, true},
		{object{"absent": "x"}, false},
		{object{"absent": false}, true},
	} {
		if got := includes(live, c.wish); got != c.want {
			t.Errorf("%v: %t", c.wish, got)
		}
	}
}
