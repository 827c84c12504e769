package dedicated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
)

// TestScale: which members there are to be, from the first one to the last.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		what        string
		want        int32
		set         *members // nil for none
		initialized bool
		members     []string
		noted       string // the claim that a primary wrote last
		claims      []string
		to          members
		say         string
		stuck       bool
	}{
		{"a new one", 3, nil, false, nil, "", nil, members{0, 3}, "", false},
		{"volumes that no primary is known to have written", 3, nil, false, nil, "", []string{"data-a-0", "data-a-1"}, members{0, 1}, "", false},
		{"volumes of an earlier one", 3, nil, false, nil, "data-a-1", []string{"data-a-0", "data-a-1"}, members{1, 1}, "", false},
		{"the last one there is a place for", 3, nil, false, nil, "data-a-2", []string{"data-a-2"}, members{2, 1}, "", false},
		{"one there is no place for", 3, nil, false, nil, "data-a-3", []string{"data-a-3"}, members{3, 1},
			`The latest data is on the volume "data-a-3": set spec.replicas to 4 or more, until it has been copied.`, true},
		{"what has begun goes on", 3, &members{1, 1}, false, []string{"missing", "standby"}, "data-a-1", []string{"data-a-1"}, members{1, 1}, "", false},
		{"until there is a primary", 3, &members{1, 1}, true, []string{"missing", "primary"}, "data-a-1", []string{"data-a-1"}, members{0, 3}, "", false},
		{"a primary that came up above the wish", 2, &members{2, 1}, true, []string{"missing", "missing", "primary"}, "data-a-2", []string{"data-a-2"}, members{2, 1},
			"The latest data is on the volume of the replica 2: set spec.replicas to 3 or more, until it has been copied.", true},
		{"growing", 3, &members{0, 1}, true, []string{"primary"}, "", nil, members{0, 3}, "", false},
		{"as it is, without a primary", 2, &members{0, 2}, true, []string{"standby", "standby"}, "", nil, members{0, 2}, "", false},
		{"fewer, and the primary that stays doesn't answer", 1, &members{0, 3}, true, []string{"primary", "standby", "standby"}, "", nil, members{0, 3},
			"The replicas become 1 once the primary, a-0, answers.", false},
		{"the last ones are ending", 1, &members{0, 1}, true, []string{"primary", "standby leaving"}, "", nil, members{0, 1}, "The replicas become 1.", false},
		{"fewer, while nobody leads", 1, &members{0, 2}, true, []string{"standby", "standby"}, "", nil, members{0, 2}, "The replicas become 1 once there is a primary.", false},
		{"fewer, and nobody who stays can lead", 1, &members{0, 2}, true, []string{"standby silent", "primary"}, "", nil, members{0, 2},
			"The replicas become 1; no standby that stays has every acknowledged write, so that it could be the primary.", false},
	} {
		o := pods(c.members...)
		o.initialized = c.initialized
		if c.set != nil {
			o.set = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &c.set.count, Ordinals: &appsv1.StatefulSetOrdinals{Start: c.set.first}}}
		}
		for _, name := range c.claims {
			claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if name == c.noted {
				claim.Annotations = map[string]string{primaryAnnotation: time.Now().UTC().Format(primaryTime)}
			}
			o.claims = append(o.claims, claim)
		}
		db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: databasev1.DatabaseSpec{Replicas: c.want}}
		to, p := (&Reconciler{Dial: noAnswer}).scale(t.Context(), db, o, &corev1.Secret{})
		if p == nil {
			p = &problem{}
		}
		if to != c.to || p.message != c.say || p.stuck != c.stuck {
			t.Errorf("%s: %+v, %q, stuck %t; want %+v, %q", c.what, to, p.message, p.stuck, c.to, c.say)
		}
	}
}

// noAnswer is the way to a pod on a lost node.
func noAnswer(context.Context, *corev1.Pod, int) (net.Conn, error) {
	return nil, errors.New("no answer")
}

// TestMarkPrimary: the claim of a new primary is noted, once, and the others keep what they have.
func TestMarkPrimary(t *testing.T) {
	t.Parallel()
	w := newWard(t, "data-a-0", "data-a-1")
	notes := func() string {
		var all corev1.PersistentVolumeClaimList
		if err := w.api.List(t.Context(), &all, client.InNamespace(w.db.Namespace)); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, claim := range all.Items {
			at := claim.Annotations[primaryAnnotation]
			if when, err := time.Parse(primaryTime, at); err == nil {
				at = when.Sub(w.began).String()
			}
			said = append(said, at)
		}
		return strings.Join(said, " ")
	}
	for _, c := range []struct {
		what    string
		after   time.Duration
		members []string
		want    string
	}{
		{"nobody leads", 0, []string{"standby", "standby"}, " "},
		{"the first one", time.Minute, []string{"primary", "standby"}, "1m0s "},
		{"it goes on", 2 * time.Minute, []string{"primary", "standby"}, "1m0s "},
		{"one that isn't ready", 3 * time.Minute, []string{"standby", "primary blinked"}, "1m0s "},
		{"another one", 4 * time.Minute, []string{"standby", "primary"}, "1m0s 4m0s"},
		{"the first one again", 5 * time.Minute, []string{"primary", "standby"}, "5m0s 4m0s"},
		{"one without a claim", 6 * time.Minute, []string{"standby", "standby", "primary"}, "5m0s 4m0s"},
	} {
		o := pods(c.members...)
		var claims corev1.PersistentVolumeClaimList
		if err := w.api.List(t.Context(), &claims, client.InNamespace(w.db.Namespace)); err != nil {
			t.Fatal(err)
		}
		o.claims = claims.Items
		if err := w.markPrimary(t.Context(), o, w.began.Add(c.after)); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := notes(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	// One that is being deleted isn't noted: whoever takes the volumes over won't find it.
	o := pods("primary")
	o.claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: w.db.Namespace, Name: "data-a-0", DeletionTimestamp: new(metav1.Now())}}}
	if err := w.markPrimary(t.Context(), o, w.began.Add(time.Hour)); err != nil || notes() != "5m0s 4m0s" {
		t.Errorf("one that is being deleted: %q, %v", notes(), err)
	}
	// One that is gone by now needs nothing.
	o.claims[0].Name, o.claims[0].DeletionTimestamp = "data-a-9", nil
	o.pods[0].Name, o.leader = "a-9", "a-9"
	if err := w.markPrimary(t.Context(), o, w.began); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// TestNotedAt: what a person wrote is older than any time.
func TestNotedAt(t *testing.T) {
	for note, want := range map[string]string{"": "", "true": "0", "2026-01-02T03:04:05.000000Z": "2026-01-02T03:04:05.000000Z"} {
		if got := notedAt(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{primaryAnnotation: note}}}); got != want {
			t.Errorf("%q: %q", note, got)
		}
	}
}

// TestApplyObjectsAroundOneInTheWay: what can't be applied keeps no other from its wish, but for a StatefulSet that isn't there
// yet: its pods would start without what they need.
func TestApplyObjectsAroundOneInTheWay(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	known := s.database()
	known.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
	unknown := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: "b"}, Spec: known.Spec}
	if err := s.Create(t.Context(), unknown); err != nil { // or the garbage collector takes what it owns
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		db   *databasev1.Database
		at   *observed
		want bool
	}{
		{"one that runs", known, s.observed(), true}, {"a new one", unknown, &observed{}, false},
	} {
		theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: c.db.Name + suffixReadOnly}}
		if err := s.Delete(t.Context(), theirs); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		theirs.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		if err := s.Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		err := s.applyObjects(t.Context(), c.db, c.at, "postgres:17", s.superuserSecret(), &findings{})
		if p := childProblem(err); p == nil || p.reason != databasev1.ReasonChildConflict || !strings.Contains(p.message, `"`+theirs.Name+`"`) {
			t.Errorf("%s: %v", c.what, err)
		}
		wanted, err := restartHash(c.db, "postgres:17")
		if err != nil {
			t.Fatal(err)
		}
		set := &appsv1.StatefulSet{}
		err = s.Client.Get(t.Context(), client.ObjectKeyFromObject(c.db), set)
		if applied := err == nil && set.Spec.Template.Annotations[restartAnnotation] == wanted; applied != c.want {
			t.Errorf("%s: the StatefulSet is applied: %t, %v", c.what, applied, err)
		}
		policy := &networkingv1.NetworkPolicy{} // which comes after the Services
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(c.db), policy); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestStoreOfAnEarlierOne: who led an earlier Database of this name isn't believed, and nothing is made beside it.
func TestStoreOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.play("primary", "standby synchronous", "standby")
	set := &appsv1.StatefulSet{}
	s.get("a", set)
	if err := s.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	s.eventually("the StatefulSet is gone", func() bool {
		return apierrors.IsNotFound(s.Client.Get(t.Context(), s.key, &appsv1.StatefulSet{}))
	})
	if o := s.observed(); o.left != "" || !o.initialized || o.leader != "a-0" {
		t.Errorf("its own store: left %q, initialized %t, leader %q", o.left, o.initialized, o.leader)
	}
	later := s.database()
	later.UID = "another"
	o, err := s.observe(t.Context(), later)
	if err != nil || o.left == "" || o.initialized || o.leader != "" || len(o.heirs) > 0 {
		t.Fatalf("another one's store: %+v, %v", o, err)
	}
	f := s.bring(t.Context(), later, o, resource.MustParse("1Gi"))
	if said(f.ready) != fmt.Sprintf("PodsStarting: The ConfigMap %q of an earlier Database of this name is to be deleted first, by Kubernetes.", o.left) {
		t.Errorf("it says %q", said(f.ready))
	}
	if err := s.Client.Get(t.Context(), s.key, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("a StatefulSet is made: %v", err)
	}
}
