package dedicated

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
)

// label sets the members' roles and the primary that the store names; no store at all for "gone".
func (s *stage) label(leader string, roles ...string) {
	s.Helper()
	for i, role := range roles {
		pod := &corev1.Pod{}
		s.change(podName(s.database(), i), pod, func() { pod.Labels[roleLabel] = role })
	}
	store := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: "a" + suffixLeader}}
	if leader == "gone" {
		if err := s.Delete(s.Context(), store); err != nil {
			s.Fatal(err)
		}
		return
	}
	s.change(store.Name, store, func() { store.Annotations = map[string]string{leaderAnnotation: leader} })
}

func (s *stage) roles() string {
	s.Helper()
	var all []string
	for _, pod := range s.observed().pods {
		all = append(all, pod.Labels[roleLabel])
	}
	return strings.Join(all, " ")
}

// TestCorrectRoles: the label goes from exactly those whom the store doesn't name, as the API server has it now.
func TestCorrectRoles(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.settle()
	reads := 0
	s.Live = storeReads{s.Client, &reads}
	for _, c := range []struct {
		what   string
		roles  []string
		cached string // the primary, as the cache has it
		live   string
		want   string
		reads  int // of the store, from the API server
	}{
		{"nothing is wrong", []string{"primary", "replica", "replica"}, "a-0", "a-0", "primary replica replica", 0},
		{"one that was cut off", []string{"primary", "replica", "primary"}, "a-2", "a-2", "replica replica primary", 1},
		{"two of them", []string{"primary", "primary", "primary"}, "a-1", "a-1", "replica primary replica", 2},
		{"the new one has no label yet", []string{"primary", "replica", "replica"}, "a-2", "a-2", "replica replica replica", 1},
		{"the store names nobody", []string{"primary", "primary", "replica"}, "", "", "primary primary replica", 0},
		{"the store names nobody any more", []string{"primary", "replica", "replica"}, "a-1", "", "primary replica replica", 1},
		{"the store names that very one by now", []string{"primary", "replica", "replica"}, "a-1", "a-0", "primary replica replica", 1},
		{"the store names that very one by now, and there is another", []string{"primary", "primary", "replica"}, "a-2", "a-0", "primary replica replica", 2},
		{"the store names a third one by now", []string{"primary", "replica", "replica"}, "a-1", "a-2", "replica replica replica", 1},
		{"only the cache names nobody", []string{"primary", "replica", "replica"}, "", "a-1", "primary replica replica", 0},
		{"there is no store any more", []string{"primary", "replica", "replica"}, "a-1", "gone", "primary replica replica", 1},
	} {
		s.label(c.cached, c.roles...)
		behind := s.observed()
		s.label(c.live)
		reads = 0
		if err := s.correctRoles(t.Context(), s.database(), behind); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := s.roles(); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if reads != c.reads {
			t.Errorf("%s: the store was read %d times, want %d", c.what, reads, c.reads)
		}
	}
}

// storeReads counts the reads of Patroni's store.
type storeReads struct {
	client.Reader
	count *int
}

func (r storeReads) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*metav1.PartialObjectMetadata); ok {
		*r.count++
	}
	return r.Reader.Get(ctx, key, o, options...)
}

// TestKeepRoles: one look of the controller. A paused Database's labels stay as they are.
func TestKeepRoles(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.settle()
	s.label("a-1", "primary", "primary")
	keep := func(name, want string) {
		t.Helper()
		key := client.ObjectKey{Namespace: s.key.Namespace, Name: name}
		if result, err := s.keepRoles(t.Context(), reconcile.Request{NamespacedName: key}); err != nil || result != (reconcile.Result{}) {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		if got := s.roles(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	db := &databasev1.Database{}
	s.change("a", db, func() { metav1.SetMetaDataAnnotation(&db.ObjectMeta, databasev1.PausedAnnotation, "true") })
	keep("a", "primary primary")
	s.change("a", db, func() { delete(db.Annotations, databasev1.PausedAnnotation) })
	keep("missing", "primary primary")
	keep("a", "replica primary")

	// A pod that changed since it was read is looked at again, one that is gone needs nothing.
	s.label("a-1", "primary", "primary")
	behind := s.observed()
	pod := &corev1.Pod{}
	s.change("a-0", pod, func() { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "changed", "yes") })
	if err := s.correctRoles(t.Context(), db, behind); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `pod "a-0"`) {
		t.Errorf("a pod that changed meanwhile: %v", err)
	}
	behind = s.observed()
	if err := s.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.settle()
	behind.pods[0].Name = "a-9" // its name may be another one's by now
	if err := s.correctRoles(t.Context(), db, behind); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
}

func TestLeaderChanged(t *testing.T) {
	at := func(leader, renewed string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{leaderAnnotation: leader, "renewTime": renewed}}}
	}
	if leaderChanged(event.UpdateEvent{ObjectOld: at("a-0", "1"), ObjectNew: at("a-0", "2")}) {
		t.Error("a heartbeat passes")
	}
	if !leaderChanged(event.UpdateEvent{ObjectOld: at("a-0", "1"), ObjectNew: at("a-1", "1")}) {
		t.Error("another primary doesn't pass")
	}
}
