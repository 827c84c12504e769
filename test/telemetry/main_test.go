package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/telemetry"
	"github.com/example/databases/internal/testenv"
)

const patience = time.Minute

var (
	sharedServer *postgrestest.Server
	sharedDSN    string
)

func TestMain(m *testing.M) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(databasev1.AddToScheme(scheme))
	manager.Logger(slog.New(slog.DiscardHandler))
	os.Exit(withServer(m, scheme))
}

func withServer(m *testing.M, scheme *runtime.Scheme) int {
	var err error
	sharedServer, err = postgrestest.Launch(context.Background(), postgrestest.Options{Major: 17})
	if err == nil {
		defer sharedServer.Close()
		sharedDSN, err = sharedServer.WeakAdmin(context.Background(), "weak_admin")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return testenv.Main(m, testenv.WithScheme(scheme), testenv.WithComponents("etcd", "kube-apiserver"))
}

// world is the program in a namespace of its own, configured by the environment as in a pod.
type world struct {
	*testing.T
	client.Client
	namespace string
	server    *postgrestest.Server
	dsnFile   string
	stderr    *testenv.Buffer
	settings  settings.Settings
	sql       postgres.Interceptor
	http      func(http.RoundTripper) http.RoundTripper
	signals   *telemetry.Telemetry
	stop      func() time.Duration
}

// newWorld reads the settings from the environment; start starts the program.
func newWorld(t *testing.T, server *postgrestest.Server, dsn string, env map[string]string) *world {
	t.Helper()
	e := testenv.Get(t)
	w := &world{T: t, Client: e.Client(), namespace: testenv.Namespace(t, e.Client()), server: server, stderr: &testenv.Buffer{},
		dsnFile: filepath.Join(t.TempDir(), "dsn")}
	if err := os.WriteFile(w.dsnFile, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"KUBECONFIG": e.Kubeconfig, "CONTROLLER_NAMESPACE": w.namespace, "CONTROLLER_RESYNC": "1h",
		"POSTGRES_ADMIN_DSN_FILE": w.dsnFile, "POSTGRES_HOST": server.Host(), "POSTGRES_PORT": strconv.Itoa(server.Port()),
		"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_BLRP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "200",
	}
	for name, value := range env {
		all[name] = value
	}
	for name, value := range all {
		t.Setenv(name, value)
	}
	var err error
	if w.settings, err = settings.Read(os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.releaseAll)
	return w
}

func toReceiver(r *receiver) map[string]string {
	return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.address, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
}

func (w *world) start() {
	w.Helper()
	options := telemetry.Options{Signals: w.settings.Telemetry, Version: "test", Pod: "databases-0", Namespace: "databases", Stderr: w.stderr}
	signals, err := telemetry.Start(w.Context(), options)
	for tries := 1; errors.Is(err, syscall.EADDRINUSE) && tries < 5; tries++ { // somebody else has taken Prometheus' port
		w.settings.Telemetry.Prometheus = net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(w.T)))
		options.Signals = w.settings.Telemetry
		signals, err = telemetry.Start(w.Context(), options)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.signals = signals
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	go func() {
		done <- manager.Run(ctx, manager.Options{
			Settings: w.settings, Log: signals.Logger(), SQL: w.sql, HTTP: w.http, Telemetry: signals, LoginInterval: 10000 * time.Hour,
		})
	}()
	stopped := false
	w.stop = func() time.Duration {
		if stopped {
			return 0
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the controller: %v", err)
		}
		start := time.Now()
		_ = signals.Shutdown(ctx) // fails where the collector does
		return time.Since(start)
	}
	w.Cleanup(func() { w.stop() })
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

// specName makes a name that no other test uses on the server.
func (w *world) specName(base string) string {
	return strings.ReplaceAll(base+"_"+strings.TrimPrefix(w.namespace, "test-"), "-", "_")
}

func (w *world) create(name string) *v1alpha1.Database {
	w.Helper()
	db := &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       v1alpha1.DatabaseSpec{Name: w.specName(name), DeletionPolicy: v1alpha1.DeletionPolicyDelete},
	}
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	return db
}

func (w *world) wait(name, reason string) {
	w.Helper()
	db := &v1alpha1.Database{}
	w.eventually(fmt.Sprintf("%s has the reason %s", name, reason), func() bool {
		w.get(name, db)
		ready := apimeta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.ObservedGeneration == db.Generation
	}, func() any { return db.Status.Conditions })
}

func (w *world) ready(name string) {
	w.Helper()
	w.wait(name, v1alpha1.ReasonProvisioned)
}

func (w *world) get(name string, o client.Object) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o); err != nil {
		w.Fatal(err)
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

// touch asks for a look at a Database.
func (w *world) touch(name string) {
	w.Helper()
	update(w, name, &v1alpha1.Database{}, func(db *v1alpha1.Database) {
		db.Annotations = map[string]string{"postgres.example.com/reconcile": time.Now().String()}
	})
}

func (w *world) exec(statements ...string) {
	w.Helper()
	if err := w.server.Exec(w.Context(), statements...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, ok func() bool, state ...func() any) {
	w.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, s := range state {
				w.Logf("it is: %+v", s())
			}
			w.Fatalf("not within %s: %s\nlog:\n%s", patience, what, w.stderr)
		}
	}
}
