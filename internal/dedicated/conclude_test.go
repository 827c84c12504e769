package dedicated

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
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
	for what, change := range map[string]func(*unstructured.Unstructured){
		"it is there":                   func(*unstructured.Unstructured) {},
		"an older one":                  func(u *unstructured.Unstructured) { u.SetResourceVersion("1") },
		"it is gone":                    func(u *unstructured.Unstructured) { u.SetName("gone") },
		"another one has its name":      func(u *unstructured.Unstructured) { u.SetUID("another"); u.SetResourceVersion("9999999999") },
		"a version that isn't a number": func(u *unstructured.Unstructured) { u.SetResourceVersion("x") },
	} {
		wish, began := written.DeepCopy(), time.Now()
		change(wish)
		awaitCache(t.Context(), s.Client, wish)
		if took := time.Since(began); took >= cacheLimit {
			t.Errorf("%s: waited for %v", what, took)
		}
	}
}
