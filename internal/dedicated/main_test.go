package dedicated_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/testenv"
)

// patience is how long a test waits for what should come at once.
const patience = 60 * time.Second

var scheme = runtime.NewScheme()

// There is no node here, so pods stay pending: what needs running ones is in test/e2e.
func TestMain(m *testing.M) {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(databasev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	manager.Logger(slog.New(slog.DiscardHandler))
	os.Exit(testenv.Main(m, testenv.WithScheme(scheme)))
}

// world is a namespace and a controller that watches it.
type world struct {
	*testing.T
	client.Client
	namespace string
	options   manager.Options
	writes    writes
	log       buffer
	stop      func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	env := testenv.Get(t)
	w := &world{T: t, Client: env.Client(), namespace: testenv.Namespace(t, env.Client())}
	w.options = manager.Options{
		Settings: settings.Settings{
			Kube: env.Config, ControllerName: "databases-controller", Namespace: w.namespace, Workers: 10, Resync: time.Hour,
			PatroniImage: "databases-patroni:dev",
		},
		Log: slog.New(slog.NewJSONHandler(&w.log, nil)), HTTP: w.writes.wrap,
	}
	t.Cleanup(w.release)
	return w
}

// release lets the namespace go after the controller has stopped.
func (w *world) release() {
	ctx := context.WithoutCancel(w.Context())
	var all databasev1.DatabaseList
	if err := w.List(ctx, &all, client.InNamespace(w.namespace)); err != nil {
		w.Error(err)
	}
	for i := range all.Items {
		all.Items[i].Finalizers = nil
		_ = w.Update(ctx, &all.Items[i])
	}
	var users v1alpha1.DatabaseList
	if err := w.List(ctx, &users, client.InNamespace(w.namespace)); err != nil {
		w.Error(err)
	}
	for i := range users.Items {
		users.Items[i].Finalizers = nil
		_ = w.Update(ctx, &users.Items[i])
	}
}

func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, w.options) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the controller: %v", err)
		}
	})
	w.Cleanup(w.stop)
}

func (w *world) create(name string, change ...func(*databasev1.Database)) *databasev1.Database {
	w.Helper()
	db := &databasev1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: databasev1.DatabaseSpec{
			Image: "postgres:15", DatabaseName: "mydb", Username: "admin", Storage: databasev1.Storage{Size: "1Gi"},
		},
	}
	for _, f := range change {
		f(db)
	}
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	return db
}

// change updates the Database, again where the controller was faster.
func (w *world) change(name string, f func(*databasev1.Database)) {
	w.Helper()
	w.eventually("the Database "+name+" is changed", func() bool {
		db := &databasev1.Database{}
		w.get(name, db)
		f(db)
		return w.Update(w.Context(), db) == nil
	})
}

// condition waits until the condition has the reason for the object's present generation.
func (w *world) condition(name, kind, reason string) *databasev1.Database {
	w.Helper()
	db := &databasev1.Database{}
	w.eventually(fmt.Sprintf("%s of %s has the reason %s", kind, name, reason), func() bool {
		w.get(name, db)
		c := apimeta.FindStatusCondition(db.Status.Conditions, kind)
		return c != nil && c.Reason == reason && c.ObservedGeneration == db.Generation
	}, func() any { return db.Status.Conditions }, func() any { return w.log.String() })
	return db
}

// quiet waits until the status shows that many pods, and a second more.
func (w *world) quiet(name string, pods int32) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s has %d pods", name, pods), func() bool {
		db := &databasev1.Database{}
		w.get(name, db)
		return db.Status.Replicas == pods
	})
	time.Sleep(time.Second)
}

func (w *world) get(name string, o client.Object) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, ok func() bool, explain ...func() any) {
	w.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, f := range explain {
				w.Logf("%v", f())
			}
			w.Fatalf("it never happened that %s", what)
		}
	}
}

// writes notes the requests that change something.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			w.mu.Lock()
			w.all = append(w.all, r.Method+" "+r.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// buffer may be written and read at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.b.String())
}
