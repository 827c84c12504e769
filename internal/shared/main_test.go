package shared_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/testenv"
)

// patience is how long a test waits for what should come at once.
const patience = 60 * time.Second

var (
	scheme = runtime.NewScheme()
	// sharedServer is the server of every test that doesn't stop or change it, with a weak admin.
	sharedServer *postgrestest.Server
	sharedDSN    string
)

func TestMain(m *testing.M) {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(databasev1.AddToScheme(scheme))
	manager.Logger(slog.New(slog.DiscardHandler))
	os.Exit(withServer(m))
}

func withServer(m *testing.M) int {
	var err error
	sharedServer, err = postgrestest.Launch(context.Background(), postgrestest.Options{Major: 17, Settings: map[string]string{"log_statement": "all"}})
	if err == nil {
		defer sharedServer.Close()
		sharedDSN, err = sharedServer.WeakAdmin(context.Background(), "weak_admin")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := testenv.Main(m, testenv.WithScheme(scheme))
	if second.env != nil {
		_ = second.env.Stop()
	}
	return status
}

// second is another cluster, without a controller manager: nobody collects garbage there.
var second struct {
	once sync.Once
	env  *testenv.Environment
	err  error
}

// inSecondCluster moves a world that isn't started yet to the second cluster.
func (w *world) inSecondCluster() *world {
	w.Helper()
	second.once.Do(func() {
		second.env, second.err = testenv.Start(context.Background(), testenv.WithScheme(scheme), testenv.WithComponents("etcd", "kube-apiserver"))
	})
	if second.err != nil {
		w.Fatal(second.err)
	}
	w.Client = second.env.Client()
	w.namespace = testenv.Namespace(w.T, w.Client)
	w.options.Settings.Kube, w.options.Settings.Namespace = second.env.Config, w.namespace
	return w
}

// world is a namespace, a controller that watches it, and a PostgreSQL server.
type world struct {
	*testing.T
	client.Client
	namespace string
	server    *postgrestest.Server
	options   manager.Options
	requests  *requests
	trips     *trips
	log       *testenv.Buffer
	stop      func() // stops the controller and waits for it
}

// newWorld makes a world on the shared server; start starts its controller.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, sharedServer, sharedDSN)
}

func newWorldOn(t *testing.T, server *postgrestest.Server, dsn string) *world {
	t.Helper()
	env := testenv.Get(t)
	w := &world{T: t, Client: env.Client(), namespace: testenv.Namespace(t, env.Client()), server: server,
		requests: &requests{}, trips: &trips{}, log: &testenv.Buffer{}}
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	w.options = manager.Options{
		Settings: settings.Settings{
			Kube: env.Config, ControllerName: "databases-controller", Namespace: w.namespace, Workers: 10, Resync: time.Hour,
			Postgres: &settings.Postgres{AdminDSNFile: file, Host: server.Host(), Port: server.Port()},
		},
		Log: slog.New(slog.NewJSONHandler(w.log, nil)), SQL: w.trips.intercept, HTTP: w.requests.wrap,
		LoginInterval: 10000 * time.Hour, // the checks come at random times; a test that wants them says so
	}
	t.Cleanup(func() { w.releaseAll() })
	return w
}

// releaseAll lets the namespace go after the controller has stopped.
func (w *world) releaseAll() {
	ctx := context.WithoutCancel(w.Context())
	var all v1alpha1.DatabaseList
	if err := w.List(ctx, &all, client.InNamespace(w.namespace)); err != nil {
		w.Error(err)
	}
	for i := range all.Items {
		all.Items[i].Finalizers = nil
		_ = w.Update(ctx, &all.Items[i])
	}
}

func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, w.options) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the controller: %v", err)
		}
	}
	w.Cleanup(w.stop)
}

// name makes a name that no other test uses on the shared server.
func (w *world) name(base string) string {
	return strings.ReplaceAll(base+"_"+strings.TrimPrefix(w.namespace, "test-"), "-", "_")
}

func (w *world) create(name string, change ...func(*v1alpha1.Database)) *v1alpha1.Database {
	w.Helper()
	db := &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       v1alpha1.DatabaseSpec{Name: w.name(name)},
	}
	for _, f := range change {
		f(db)
	}
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	return db
}

func deletePolicy(db *v1alpha1.Database) { db.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete }

func specName(name string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.Spec.Name = name }
}

// wait waits until Ready has the reason for the object's present generation.
func (w *world) wait(name, reason string) *v1alpha1.Database {
	w.Helper()
	db := &v1alpha1.Database{}
	w.eventually(fmt.Sprintf("%s has the reason %s", name, reason), func() bool {
		w.get(name, db)
		ready := apimeta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.ObservedGeneration == db.Generation
	}, func() any { return db.Status })
	return db
}

func (w *world) ready(name string) *v1alpha1.Database {
	w.Helper()
	return w.wait(name, v1alpha1.ReasonProvisioned)
}

func (w *world) message(name string) string {
	w.Helper()
	db := &v1alpha1.Database{}
	w.get(name, db)
	return apimeta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady).Message
}

func (w *world) get(name string, o client.Object) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o); err != nil {
		w.Fatal(err)
	}
}

// secret is the Database's Secret, nil where there is none.
func (w *world) secret(name string) *corev1.Secret {
	w.Helper()
	s := &corev1.Secret{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name + "-postgres"}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) delete(name string) {
	w.Helper()
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	if err := w.Delete(w.Context(), db); err != nil {
		w.Fatal(err)
	}
}

func (w *world) gone(name string) {
	w.Helper()
	w.eventually(name+" is gone", func() bool {
		err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &v1alpha1.Database{})
		return apierrors.IsNotFound(err)
	})
}

// goneWithin is for deletions that wait for nothing; the limit is generous.
func (w *world) goneWithin(name string, limit time.Duration) {
	w.Helper()
	start := time.Now()
	w.gone(name)
	if took := time.Since(start); took > limit {
		w.Errorf("%s was gone after %s, want %s", name, took, limit)
	}
}

// update changes an object, again where somebody else was faster.
func update[T client.Object](w *world, name string, o T, change func(T)) {
	w.Helper()
	for {
		w.get(name, o)
		change(o)
		err := w.Update(w.Context(), o)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
	}
}

// logIn logs in with the Secret's own URI.
func (w *world) logIn(secret *corev1.Secret, statements ...string) error {
	conn, err := pgx.Connect(w.Context(), string(secret.Data["uri"]))
	if err != nil {
		return err
	}
	defer conn.Close(w.Context())
	for _, sql := range statements {
		if _, err := conn.Exec(w.Context(), sql); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) mustLogIn(name string, statements ...string) {
	w.Helper()
	secret := w.secret(name)
	if secret == nil {
		w.Fatalf("%s has no Secret", name)
	}
	if err := w.logIn(secret, statements...); err != nil {
		w.Errorf("the Secret of %s doesn't log in: %v", name, err)
	}
}

func (w *world) sql(statements ...string) {
	w.Helper()
	if err := w.server.Exec(w.Context(), statements...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) query(sql string) [][]string {
	w.Helper()
	rows, err := w.server.Query(w.Context(), sql)
	if err != nil {
		w.Fatal(err)
	}
	return rows
}

// exists reports whether the server has the role and the database.
func (w *world) exists(name string) (role, database bool) {
	w.Helper()
	return len(w.query(fmt.Sprintf("SELECT 1 FROM pg_roles WHERE rolname = '%s'", name))) > 0,
		len(w.query(fmt.Sprintf("SELECT 1 FROM pg_database WHERE datname = '%s'", name))) > 0
}

func (w *world) eventually(what string, ok func() bool, state ...func() any) {
	w.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, s := range state {
				w.Logf("it is: %+v", s())
			}
			w.Fatalf("not within %s: %s\nlog:\n%s", patience, what, w.log)
		}
	}
}

// settle waits until the controller has done nothing for a while.
func (w *world) settle() {
	w.Helper()
	for last := -1; ; {
		n := w.requests.total() + w.trips.total()
		if n == last {
			return
		}
		last = n
		time.Sleep(700 * time.Millisecond)
	}
}
