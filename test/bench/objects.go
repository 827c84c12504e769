package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// clients is how many requests the measuring client sends at once.
const clients = 50

// objects makes and deletes Databases and sees by a watch what becomes of them.
type objects struct {
	client  client.Client
	watcher watch.Interface

	mu    sync.Mutex
	lives map[string]*life
	err   error
}

// life is when things happened to one Database; a zero time is one that hasn't come.
type life struct {
	uid                            string
	created, ready, deleted, ended time.Time
}

func watchObjects(ctx context.Context, c client.WithWatch) (*objects, error) {
	list := &v1alpha1.DatabaseList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Databases: %w", err)
	}
	// A busy API server ends watches, which this one takes up where they ended.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, databaseWatcher{c})
	if err != nil {
		return nil, fmt.Errorf("watching Databases: %w", err)
	}
	o := &objects{client: c, watcher: watcher, lives: map[string]*life{}}
	go o.follow()
	return o, nil
}

// databaseWatcher begins a watch.
type databaseWatcher struct{ client client.WithWatch }

// WatchWithContext implements cache.WatcherWithContext.
func (w databaseWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w.client.Watch(ctx, &v1alpha1.DatabaseList{}, &client.ListOptions{Namespace: namespace, Raw: &options})
}

func (o *objects) close() error {
	o.watcher.Stop()
	return nil
}

func (o *objects) follow() {
	for event := range o.watcher.ResultChan() {
		now := time.Now()
		db, ok := event.Object.(*v1alpha1.Database)
		o.mu.Lock()
		if !ok {
			o.err = fmt.Errorf("the watch has %v", event.Object)
		} else {
			o.note(now, event.Type, db)
		}
		o.mu.Unlock()
	}
	o.mu.Lock()
	o.err = errors.Join(o.err, errors.New("the watch has ended"))
	o.mu.Unlock()
}

func (o *objects) note(now time.Time, kind watch.EventType, db *v1alpha1.Database) {
	l := o.lives[db.Name]
	switch {
	case l == nil:
	case kind == watch.Deleted:
		l.ended = now
	case l.ready.IsZero() && apimeta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionReady):
		l.ready = now
	}
}

// names are n names with a prefix; they are the Databases' in Kubernetes and in PostgreSQL.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return all
}

// create makes Databases, many at once; it returns when the API server has them.
func (o *objects) create(ctx context.Context, names []string) error {
	return eachOf(names, clients, func(name string) error {
		l := &life{created: time.Now()}
		o.mu.Lock()
		o.lives[name] = l
		o.mu.Unlock()
		db := &v1alpha1.Database{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.DatabaseSpec{Name: name, DeletionPolicy: v1alpha1.DeletionPolicyDelete},
		}
		if err := o.client.Create(ctx, db); err != nil {
			return fmt.Errorf("making a Database: %w", err)
		}
		o.mu.Lock()
		l.uid = string(db.UID)
		o.mu.Unlock()
		return nil
	})
}

// remove asks for the deletion of Databases, many at once.
func (o *objects) remove(ctx context.Context, names []string) error {
	return eachOf(names, clients, func(name string) error {
		o.mu.Lock()
		o.lives[name].deleted = time.Now()
		o.mu.Unlock()
		err := o.client.Delete(ctx, &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		if err != nil {
			return fmt.Errorf("deleting a Database: %w", err)
		}
		return nil
	})
}

// eachOf calls f for each name, that many at a time, and stops at the first error.
func eachOf(names []string, workers int, f func(string) error) error {
	queue := make(chan string, len(names))
	for _, name := range names {
		queue <- name
	}
	close(queue)
	failed := make(chan error, workers)
	var group sync.WaitGroup
	for range min(workers, len(names)) {
		group.Go(func() {
			for name := range queue {
				if err := f(name); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}

// uid is a Database's.
func (o *objects) uid(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lives[name].uid
}

// allReady reports that all were seen Ready; allGone, that all were seen to go.
func (o *objects) allReady(names []string) func() (bool, error) {
	return o.all(names, func(l *life) time.Time { return l.ready })
}

func (o *objects) allGone(names []string) func() (bool, error) {
	return o.all(names, func(l *life) time.Time { return l.ended })
}

func (o *objects) all(names []string, event func(*life) time.Time) func() (bool, error) {
	next := 0 // those before it have happened
	return func() (bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for next < len(names) && !event(o.lives[names[next]]).IsZero() {
			next++
		}
		return next == len(names), o.err
	}
}

// creation and deletion are how long they took, from the first request to the last event.
func (o *objects) creation(names []string) timing {
	return o.timing(names, func(l *life) (time.Time, time.Time) { return l.created, l.ready })
}

func (o *objects) deletion(names []string) timing {
	return o.timing(names, func(l *life) (time.Time, time.Time) { return l.deleted, l.ended })
}

// readiness is how long they took to be Ready from one moment on.
func (o *objects) readiness(names []string, from time.Time) timing {
	return o.timing(names, func(l *life) (time.Time, time.Time) { return from, l.ready })
}

func (o *objects) timing(names []string, times func(*life) (from, to time.Time)) timing {
	o.mu.Lock()
	defer o.mu.Unlock()
	var spans []span
	for _, name := range names {
		from, to := times(o.lives[name])
		spans = append(spans, span{from, to})
	}
	return timingOf(spans)
}
