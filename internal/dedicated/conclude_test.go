package dedicated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/reconciling"
	"github.com/example/databases/internal/testenv"
)

// TestStatusIsReadBack: a look sees what the one before it wrote, however soon it comes. It would end in a conflict
// otherwise, and what it did would not be told.
func TestStatusIsReadBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	cached, err := cache.New(testenv.Get(t).Config, cache.Options{Scheme: s.Scheme(), DefaultNamespaces: map[string]cache.Config{s.key.Namespace: {}}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cached.Start(t.Context()) }()
	c, err := client.New(testenv.Get(t).Config, client.Options{Scheme: s.Scheme(), Cache: &client.CacheOptions{
		Reader: cached, Unstructured: true, EnableReadYourWritesConsistency: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	if !cached.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache doesn't start")
	}
	s.Reconciler.Client = c
	late := false
	for i := range 50 {
		stored := newUnstructured()
		if err := c.Get(t.Context(), s.key, stored); err != nil {
			t.Fatal(err)
		}
		before := &databasev1.Database{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, before); err != nil {
			t.Fatal(err)
		}
		after := before.DeepCopy()
		after.Status.Primary = fmt.Sprint("a-", i)
		began := time.Now()
		if err := s.writeStatus(t.Context(), stored, before, after); err != nil && !late {
			t.Fatalf("write %d: %v", i, err)
		}
		late = time.Since(began) >= cacheLimit // then the next one may meet it, on a machine that stands still
	}
}

// TestAwaitCache: nothing is waited for that never comes.
func TestAwaitCache(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	written := newUnstructured()
	s.get("a", written)
	for what, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		by     int
		comes  bool
	}{
		"it is there":        {func(*unstructured.Unstructured) {}, 0, true},
		"a newer one":        {func(u *unstructured.Unstructured) { u.SetResourceVersion("1") }, 0, true},
		"also if it must be": {func(u *unstructured.Unstructured) { u.SetResourceVersion("1") }, 1, true},
		"it is gone":         {func(u *unstructured.Unstructured) { u.SetName("gone") }, 0, false},
		"another one has its name": {func(u *unstructured.Unstructured) {
			u.SetUID("another")
			u.SetResourceVersion("9999999999")
		}, 0, false},
		"a version that isn't a number": {func(u *unstructured.Unstructured) { u.SetResourceVersion("x") }, 0, false},
	} {
		wish, began := written.DeepCopy(), time.Now()
		c.change(wish)
		seen := awaitCache(t.Context(), s.Client, wish, c.by)
		if took := time.Since(began); took >= cacheLimit || (seen != nil) != c.comes || seen != nil && seen.GetUID() != written.GetUID() {
			t.Errorf("%s: waited for %v, and saw %v", what, took, seen)
		}
	}
	if seen := awaitCache(t.Context(), s.Client, written, 1); seen != nil {
		t.Errorf("saw a newer one, %v", seen)
	}
}

// TestNothingIsDoneUntold: a look that a conflict ends, as no status says what it did, restarts nobody.
func TestNothingIsDoneUntold(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2).withPostgres()
	s.stream("a-0", 0)
	s.stream("a-1", 0)
	s.play("primary", "standby synchronous")
	if said := s.look(); said != settled {
		t.Fatalf("at first: %s", said)
	}
	s.request("64Mi")
	if said := s.look(); !strings.HasSuffix(said, "the StatefulSet is told.") {
		t.Fatalf("then: %s", said)
	}
	s.settle()
	before, pods := s.database(), s.observed().pods
	c, err := client.NewWithWatch(testenv.Get(t).Config, client.Options{Scheme: s.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{}
	s.get("a", budget)
	if err := s.Delete(t.Context(), budget); err != nil { // so that it is to be applied
		t.Fatal(err)
	}
	s.Reconciler.Client = interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return apierrors.NewConflict(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets").GroupResource(), "a", errors.New("somebody was faster"))
		}})
	result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: s.key})
	if err != nil || result.RequeueAfter != reconciling.ConflictDelay {
		t.Errorf("%v, %v", result, err)
	}
	if now := s.database(); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Database was written: %s", cmp.Diff(before, now))
	}
	for i, pod := range s.observed().pods {
		if pod.UID != pods[i].UID || pod.DeletionTimestamp != nil {
			t.Errorf("%s was restarted", pod.Name)
		}
	}
	s.Reconciler.Client = s.Client
	if said := s.look(); said != "0 of 2 replicas are as the spec wishes; a-1 is restarted." {
		t.Errorf("without the conflict: %s", said)
	}
}

// TestStatusAfterAnEdit: what was done is told although somebody edits the Database meanwhile, and nobody's word is lost.
func TestStatusAfterAnEdit(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	for what, c := range map[string]struct {
		meanwhile func(*databasev1.Database)
		conflict  bool
	}{
		"an annotation": {func(db *databasev1.Database) {
			metav1.SetMetaDataAnnotation(&db.ObjectMeta, "note", "mine")
			s.must(s.Client.Update(t.Context(), db))
		}, false},
		"another status": {func(db *databasev1.Database) {
			db.Status.Primary = "a-7"
			s.must(s.Client.Status().Update(t.Context(), db))
		}, true},
		"another Database": {func(db *databasev1.Database) {
			db.Finalizers = nil
			s.must(s.Client.Update(t.Context(), db))
			s.must(s.Client.Delete(t.Context(), db))
			s.must(s.Client.Create(t.Context(), &databasev1.Database{
				ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name}, Spec: db.Spec}))
		}, true},
	} {
		stored, before := newUnstructured(), s.database()
		s.get("a", stored)
		after := before.DeepCopy()
		after.Status.Primary = "a-0 " + what
		c.meanwhile(before.DeepCopy())
		err := s.writeStatus(t.Context(), stored, before, after)
		if now := s.database(); apierrors.IsConflict(err) != c.conflict || err != nil != c.conflict || (now.Status.Primary == after.Status.Primary) == c.conflict {
			t.Errorf("%s meanwhile: %v; the status is %+v", what, err, now.Status)
		} else if now.Annotations["note"] != "mine" && what == "an annotation" {
			t.Errorf("%s is lost", what)
		}
	}
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
