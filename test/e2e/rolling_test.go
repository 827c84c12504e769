//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
	"github.com/example/databases/test/faults"
)

// TestRollingChange changes all that restarts replicas, one thing after the other, while an application writes: standbys
// first, then the primary moves, the old primary last. Nothing is lost, and how long writes are out is printed for each.
func TestRollingChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.clientPod()
	runner, err := w.threeReplicas("rolling", databasev1.DurabilitySync)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []step{
		{name: "image", what: "an image of the same major version", pods: true, started: true, moved: true, told: allProgress,
			change: func(db *databasev1.Database) { db.Spec.Image = "postgres:15-next" }},
		{name: "resources", what: "resources", pods: true, started: true, moved: true, told: allProgress,
			change: func(db *databasev1.Database) {
				db.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
			}},
		{name: "restart", what: "a parameter that needs a start", started: true, moved: true, told: allProgress,
			change: parameter("max_connections", "120"), shows: map[string]string{"max_connections": "120"}},
		{name: "lowered", what: "one whose value standbys must not have below the primary's", started: true, told: allProgress[:1],
			change: parameter("max_connections", "90"), shows: map[string]string{"max_connections": "90"}},
		{name: "reload", what: "a parameter that needs none",
			change: parameter("work_mem", "5MB"), shows: map[string]string{"work_mem": "5MB"}},
		{name: "fewer", what: "two replicas instead of three", change: func(db *databasev1.Database) { db.Spec.Replicas = 2 }},
	} {
		t.Run(c.name, func(t *testing.T) { w.roll(t, runner, c) })
	}
}

// allProgress is what is told member by member. Where a value goes down, the two standbys that wait for the
// primary may be done before the controller looks again.
var allProgress = []string{"1 of 3 replicas are as the spec wishes", "2 of 3 replicas are as the spec wishes"}

// step is a change, and what has to come of it.
type step struct {
	name, what string
	change     func(*databasev1.Database)
	pods       bool              // are replaced
	started    bool              // is PostgreSQL, in each member
	moved      bool              // is the primary
	told       []string          // must be in what the condition UpToDate says meanwhile
	shows      map[string]string // are the parameters that have another value, in each member
}

// roll carries a step out and looks at what came of it.
func (w *world) roll(t *testing.T, runner *faults.Runner, c step) {
	t.Helper()
	before, since, members := w.pods("rolling"), time.Now(), w.members(t, runner)
	told := w.told(t, "rolling")
	result := runner.Run(t.Context(), faults.Planned(c.name, c.what, func(context.Context) error {
		w.change("rolling", c.change)
		return nil
	}))
	messages := told()
	fmt.Printf("      %-10s %s; %d rows, %d lost, done after %.0f s\n", c.name, result.Steps(), result.Written, result.Lost, float64(result.Recovery)/1000)
	if result.Bad() {
		t.Errorf("%s\n%s", strings.Join(result.Violations, "\n"), result.Trouble)
	}
	c.moved = c.moved || c.name == "fewer" && result.OldPrimary == "rolling-2" // which has to go
	w.checkRoll(t, before, since, result, c.pods, c.moved)
	checkMembers(t, members, w.members(t, runner), c)
	if events := w.changes("rolling", since); !c.started && !c.moved && len(events) > 0 {
		t.Errorf("nothing had to be restarted, and the events are %q", events)
	}
	for _, progress := range c.told {
		if !slices.ContainsFunc(messages, func(m string) bool { return strings.Contains(m, progress) }) {
			t.Errorf("it was never told %q, but %q; the events are %q", progress, messages, w.changes("rolling", since))
		}
	}
}

// member is what PostgreSQL in a pod says of itself.
type member struct {
	Started string            `json:"started"`
	Shows   map[string]string `json:"shows"`
}

// members are all of them, by name.
func (w *world) members(t *testing.T, runner *faults.Runner) map[string]member {
	t.Helper()
	answers, err := runner.Target.Each(t.Context(), `SELECT json_build_object('started', pg_postmaster_start_time(), 'shows', json_build_object(
'work_mem', current_setting('work_mem'), 'max_connections', current_setting('max_connections')))::text`)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]member{}
	for name, answer := range answers {
		var m member
		if err := json.Unmarshal([]byte(answer), &m); err != nil {
			t.Fatal(err)
		}
		all[name] = m
	}
	return all
}

// checkMembers compares what each member that stays says of itself before and after a step.
func checkMembers(t *testing.T, before, after map[string]member, c step) {
	t.Helper()
	for name, now := range after {
		if started := now.Started != before[name].Started; started != c.started {
			t.Errorf("PostgreSQL of %s was started: %t, want %t", name, started, c.started)
		}
		want := maps.Clone(before[name].Shows)
		maps.Copy(want, c.shows)
		if !maps.Equal(now.Shows, want) {
			t.Errorf("%s shows %v, want %v", name, now.Shows, want)
		}
		for parameter, value := range c.shows {
			if before[name].Shows[parameter] == value {
				t.Errorf("%s had %s = %s before: the step shows nothing", name, parameter, value)
			}
		}
	}
}

// told follows what the condition UpToDate says, until the function that it returns is called, which returns the messages.
func (w *world) told(t *testing.T, name string) func() []string {
	t.Helper()
	c, err := client.NewWithWatch(testenv.Get(t).Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Watch(t.Context(), &databasev1.DatabaseList{}, client.InNamespace(w.namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			db, ok := event.Object.(*databasev1.Database)
			if !ok {
				continue
			}
			up := apimeta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionUpToDate)
			if up != nil && (len(messages) == 0 || messages[len(messages)-1] != up.Message) {
				messages = append(messages, up.Message)
			}
		}
	}()
	return func() []string {
		events.Stop()
		<-done
		return messages
	}
}

func parameter(name, value string) func(*databasev1.Database) {
	return func(db *databasev1.Database) {
		if db.Spec.Parameters == nil {
			db.Spec.Parameters = map[string]databasev1.ParameterValue{}
		}
		db.Spec.Parameters[name] = databasev1.ParameterValue(value)
	}
}

// checkRoll looks at what was restarted, in which order, and whether the primary moved.
func (w *world) checkRoll(t *testing.T, before map[string]string, since time.Time, result *faults.Result, pods, moved bool) {
	t.Helper()
	for name, now := range w.pods("rolling") {
		if replaced := before[name] != now; replaced != pods {
			t.Errorf("%s was replaced: %t, want %t", name, replaced, pods)
		}
	}
	if got := result.OldPrimary != result.NewPrimary; got != moved {
		t.Errorf("the primary moved: %t, want %t", got, moved)
	}
	all := w.changes("rolling", since)
	at := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, databasev1.ReasonSwitchover) })
	if !moved || len(before) != len(w.pods("rolling")) {
		return
	}
	if at != 2 || pods != (len(all) == 4) || pods && !strings.Contains(all[len(all)-1], result.OldPrimary) {
		t.Errorf("not two standbys, then the move, then the old primary (unless its PostgreSQL was restarted by the move): %q", all)
	}
}
