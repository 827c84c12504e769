package dedicated_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
)

// TestScenarioServerInvalid: one event a value, and the Database's objects are made. What strikes in a running server is the
// shared Database's own code.
func TestScenarioServerInvalid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Settings.FaultTrustedPrefix = w.namespace[:8]
	w.start()
	w.create("orders", func(db *databasev1.Database) {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, v1alpha1.FailureScenarioAnnotation, "provision=eror")
	})
	w.condition("orders", databasev1.ConditionReady, databasev1.ReasonPodsStarting)
	notes := func() (notes []string) {
		var list eventsv1.EventList
		if err := w.List(w.Context(), &list, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == databasev1.ReasonFailureScenarioInvalid {
				notes = append(notes, e.Note)
			}
		}
		return notes
	}
	w.eventually("there is an event", func() bool { return len(notes()) > 0 }) // it is written in the background
	for i := range 3 {
		w.change("orders", func(db *databasev1.Database) {
			metav1.SetMetaDataAnnotation(&db.ObjectMeta, databasev1.ReconcileAnnotation, fmt.Sprint(i))
		})
		time.Sleep(300 * time.Millisecond)
	}
	if notes := notes(); len(notes) != 1 || !strings.Contains(notes[0], `at character 11, "eror"`) {
		t.Errorf("events %q, want one that names the place", notes)
	}
}
