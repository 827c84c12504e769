package dedicated

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/example/databases/api/database/v1"
)

// TestUnsafeParameters: what one replica may have, several may lose acknowledged writes by. It isn't only refused, but
// also taken out again where the replicas become several.
func TestUnsafeParameters(t *testing.T) {
	for _, c := range []struct {
		name, value string
		durability  databasev1.Durability
		replicas    int32
		want        []string
	}{
		{"synchronous_commit", "off", databasev1.DurabilitySync, 3, []string{"synchronous_commit"}},
		{"synchronous_commit", "LOCAL", databasev1.DurabilitySync, 2, []string{"synchronous_commit"}},
		{"synchronous_commit", "remote_write", databasev1.DurabilitySync, 3, []string{"synchronous_commit"}},
		{"synchronous_commit", "false", databasev1.DurabilitySync, 3, []string{"synchronous_commit"}},
		{"synchronous_commit", "On", databasev1.DurabilitySync, 3, nil},
		{"synchronous_commit", "remote_apply", databasev1.DurabilitySync, 3, nil},
		{"synchronous_commit", "off", databasev1.DurabilitySync, 1, nil},
		{"synchronous_commit", "off", databasev1.DurabilityAsync, 3, nil},
		{"wal_sender_timeout", "0", databasev1.DurabilitySync, 3, []string{"wal_sender_timeout"}},
		{"wal_receiver_timeout", "0 s", databasev1.DurabilityAsync, 3, []string{"wal_receiver_timeout"}},
		{"wal_sender_timeout", "5s", databasev1.DurabilitySync, 3, nil},
	} {
		db := &databasev1.Database{Spec: databasev1.DatabaseSpec{
			Replicas: c.replicas, Durability: c.durability,
			Parameters: map[string]databasev1.ParameterValue{c.name: databasev1.ParameterValue(c.value), "work_mem": "8MB"},
		}}
		config, err := json.Marshal(patroniDynamic(db, &observed{}, wantedParameters(db)))
		if err != nil {
			t.Fatal(err)
		}
		o := &observed{config: string(config)}
		if got := slices.Sorted(maps.Keys(unsafeParameters(wantedParameters(db), o.synchronous(db)))); !slices.Equal(got, c.want) {
			t.Errorf("%s = %s, %s, %d replicas: refused are %q, want %q", c.name, c.value, c.durability, c.replicas, got, c.want)
		}
		if kept := accepted(db, o); kept["work_mem"] != "8MB" || (kept[c.name] == "") != (len(c.want) == 1) {
			t.Errorf("%s = %s, %s, %d replicas: those that stay are %q", c.name, c.value, c.durability, c.replicas, kept)
		}
	}
}

// TestScaleKeepsWhoHasTheWrites: a member that leads, or of whom Patroni would let one lead, has a place, whatever the spec
// wishes; and replicas go only when the primary says itself that it is one (test/e2e has one that does).
func TestScaleKeepsWhoHasTheWrites(t *testing.T) {
	for _, c := range []struct {
		what    string
		have    int32 // of the StatefulSet; 0 for none
		members []string
		leader  string
		heirs   []string
		new     bool // there was never data
		want    members
		says    string
	}{
		{"another one became the primary while they went", 1, []string{"standby", "primary", "leaving"}, "a-1", nil, false, members{0, 2}, "the replica 1 has the latest data"},
		{"it is gone, and the store names it", 1, []string{"standby"}, "a-2", nil, false, members{0, 3}, "the replica 2 has the latest data"},
		{"nobody leads, and others may", 1, []string{"standby"}, "", []string{"a-2", "a-1"}, false, members{0, 2}, "the replica 1 has the latest data"},
		{"nobody leads, and it may", 1, []string{"standby"}, "", []string{"a-0", "a-1"}, false, members{0, 1}, ""},
		{"nothing is known yet", 1, []string{"standby"}, "", nil, true, members{0, 1}, ""},
		{"volumes of an earlier one", 0, nil, "", nil, true, members{2, 1}, "set spec.replicas to 3"},
		{"its StatefulSet was deleted alone", 0, nil, "a-0", nil, false, members{0, 1}, ""},
	} {
		o := pods(c.members...)
		o.leader, o.heirs, o.initialized = c.leader, c.heirs, !c.new
		if c.have > 0 {
			o.set = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &c.have}}
		}
		o.claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data-a-2",
			Annotations: map[string]string{primaryAnnotation: time.Now().UTC().Format(primaryTime)}}}}
		r := &Reconciler{Dial: noAnswer}
		got, p := r.scale(t.Context(), &databasev1.Database{Spec: databasev1.DatabaseSpec{Replicas: 1}}, o, &corev1.Secret{})
		said := ""
		if p != nil {
			said = p.message
		}
		if got != c.want || !strings.Contains(said, c.says) || (said == "") != (c.says == "") {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.what, got, said, c.want, c.says)
		}
	}
}

// TestSynchronousWhileNobodyLeads: Patroni forgets who may lead where it is told that writes aren't synchronous any more.
func TestSynchronousWhileNobodyLeads(t *testing.T) {
	db := &databasev1.Database{Spec: databasev1.DatabaseSpec{Replicas: 1, Durability: databasev1.DurabilitySync}}
	for _, c := range []struct {
		member string
		heirs  []string
		want   bool
	}{
		{"standby", []string{"a-1"}, true}, {"primary", []string{"a-0"}, false}, {"standby", nil, false},
	} {
		o := pods(c.member)
		o.heirs = c.heirs
		if got := o.synchronous(db); got != c.want {
			t.Errorf("a %s, and %q may lead: %t", c.member, c.heirs, got)
		}
	}
}

// TestAnswers: a server without a primary is waited for as long as a failover takes, and not for ever.
func TestAnswers(t *testing.T) {
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	now := time.Now()
	r := &Reconciler{}
	for _, c := range []struct {
		what    string
		members []string
		at      time.Duration
		want    bool
	}{
		{"it serves", []string{"primary"}, 0, true},
		{"a failover begins", []string{"standby"}, time.Minute, true},
		{"it takes long", []string{"standby"}, time.Minute + leaderlessLimit - time.Second, true},
		{"for ever", []string{"standby"}, time.Minute + leaderlessLimit, false},
		{"there is one again", []string{"primary"}, 10 * time.Minute, true},
		{"and none once more", []string{"standby"}, 11 * time.Minute, true},
		{"nothing runs", []string{"down"}, 11 * time.Minute, false},
	} {
		if got := r.answers(db, pods(c.members...), now.Add(c.at)); got != c.want {
			t.Errorf("%s: %t, want %t", c.what, got, c.want)
		}
	}
}

// TestHasten: a primary without a synchronous standby is told to look around once a second, for half a minute from when it
// is alone or a standby is ready.
func TestHasten(t *testing.T) {
	t.Parallel()
	const order = `a-0 config {"wake": null}`
	for _, c := range []struct {
		what    string
		members []string
		sync    []string
		change  func(*ward, *observed)
		want    string
	}{
		{"one is ready", []string{"primary", "standby", "standby down"}, nil, nil, order},
		{"none is ready", []string{"primary", "standby down"}, nil, nil, ""},
		{"one is synchronous", []string{"primary", "standby"}, []string{"a-1"}, nil, ""},
		{"none is to be", []string{"primary", "standby"}, nil, func(w *ward, _ *observed) { w.db.Spec.Durability = databasev1.DurabilityAsync }, ""},
		{"there is no primary", []string{"standby", "standby"}, nil, nil, ""},
		{"it has been alone for long, and one is ready now", []string{"primary", "standby"}, nil, longAlone, order},
		{"for long, and one has been ready before", []string{"primary", "standby"}, nil, func(w *ward, o *observed) {
			longAlone(w, o)
			w.restarts.ask(w.db.UID, "ready "+string(o.pods[1].UID), time.Now().Add(-time.Second))
		}, ""},
	} {
		w, o := newWard(t), pods(c.members...)
		w.db.Spec.Replicas, o.sync = 3, c.sync
		if c.change != nil {
			c.change(w, o)
		}
		now := time.Now()
		for range 3 {
			if again := w.hasten(t.Context(), w.db, o, w.patroni.secret(), now); again != (c.want != "") {
				t.Errorf("%s: more to do: %t", c.what, again)
			}
		}
		if got := w.patroni.take(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func longAlone(w *ward, o *observed) {
	w.alone.update(w.db.UID, []types.UID{o.pods[0].UID}, time.Now().Add(-hastenFor))
}
