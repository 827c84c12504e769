//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/example/databases/api/database/v1"
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
	for _, c := range []struct {
		name, what string
		change     func(*databasev1.Database)
		pods       bool // replaced
		moved      bool // the primary
	}{
		{"image", "an image of the same major version", func(db *databasev1.Database) { db.Spec.Image = "postgres:15-next" }, true, true},
		{"resources", "resources", func(db *databasev1.Database) {
			db.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
		}, true, true},
		{"restart", "a parameter that needs a start", parameter("max_connections", "120"), false, true},
		{"lowered", "one whose value standbys must not have below the primary's", parameter("max_connections", "90"), false, false},
		{"reload", "a parameter that needs none", parameter("work_mem", "5MB"), false, false},
		{"fewer", "two replicas instead of three", func(db *databasev1.Database) { db.Spec.Replicas = 2 }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, since := w.pods("rolling"), time.Now()
			result := runner.Run(t.Context(), faults.Planned(c.name, c.what, func(context.Context) error {
				w.change("rolling", c.change)
				return nil
			}))
			fmt.Printf("      %-10s %s; %d rows, %d lost, done after %.0f s\n", c.name, result.Steps(), result.Written, result.Lost, float64(result.Recovery)/1000)
			if result.Bad() {
				t.Errorf("%s\n%s", strings.Join(result.Violations, "\n"), result.Trouble)
			}
			moved := c.moved || c.name == "fewer" && result.OldPrimary == "rolling-2" // which has to go
			w.checkRoll(t, before, since, result, c.pods, moved)
		})
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
