package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/shared"
)

// shutdownGrace is how long the manager waits for reconciles in flight; they end themselves a little earlier.
const shutdownGrace = 20 * time.Second

// control runs the controllers until ctx ends.
func control(ctx context.Context, s settings.Settings, log *slog.Logger) error {
	logger := logr.FromSlogHandler(log.Handler())
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)

	mgr, err := ctrl.NewManager(s.Kube, managerOptions(s))
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	cluster, err := clusterID(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	reconciler := &shared.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cluster: cluster,
		FieldManager: s.ControllerName, Resync: s.Resync,
		Recorder: mgr.GetEventRecorder(s.ControllerName), Waiting: shared.NewWaiting(),
	}
	if s.Postgres != nil {
		server, err := postgres.NewServer(s.Postgres.AdminDSNFile, nil)
		if err != nil {
			return fmt.Errorf("POSTGRES_ADMIN_DSN_FILE: %w", err)
		}
		defer server.Close()
		server.Notify(func(down error) {
			if down == nil {
				log.Info("PostgreSQL can be reached again")
				reconciler.Waiting.Wake()
				return
			}
			log.Error("PostgreSQL can't be reached", "error", down)
		})
		reconciler.Admin = server
		reconciler.Endpoint = endpoint(*s.Postgres, server)
	}
	if err := reconciler.SetupWithManager(mgr, s.Workers); err != nil {
		return err
	}
	log.Info("starting", "version", version(), "cluster", cluster)
	if err := mgr.Start(ctx); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

func managerOptions(s settings.Settings) ctrl.Options {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	options := ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			ByObject:         shared.SecretCache(),
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Client:                  client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(shutdownGrace),
	}
	if s.Namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{s.Namespace: {}}
	}
	return options
}

// clusterID is what claims call this cluster: the uid of the one namespace that every cluster has from its beginning.
func clusterID(ctx context.Context, live client.Reader) (string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("reading the Namespace %s, whose uid identifies this cluster: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

// endpoint gives what Secrets say of the server as of now: the DSN's sslmode and the CA file may change.
func endpoint(p settings.Postgres, server *postgres.Server) func() (shared.Endpoint, error) {
	ca := &file{name: p.CAFile}
	return func() (shared.Endpoint, error) {
		e := shared.Endpoint{Host: p.Host, Port: p.Port, SSLMode: p.SSLMode}
		if e.SSLMode == "" {
			e.SSLMode = server.SSLMode()
		}
		if p.CAFile == "" {
			return e, nil
		}
		var err error
		e.CA, err = ca.content()
		return e, err
	}
}

// file is a file that is read again when it changes, looked at once a second at most.
type file struct {
	name string

	mu      sync.Mutex
	checked time.Time
	stat    os.FileInfo
	data    []byte
	err     error
}

func (f *file) content() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < time.Second {
		return f.data, f.err
	}
	f.checked = time.Now()
	stat, err := os.Stat(f.name)
	if err == nil && f.err == nil && f.stat != nil && stat.ModTime().Equal(f.stat.ModTime()) && os.SameFile(stat, f.stat) {
		return f.data, nil
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(f.name)
	}
	if err == nil {
		f.data = bytes.TrimSpace(data)
		f.data = append(f.data, '\n')
	}
	f.stat, f.err = stat, err
	return f.data, f.err
}
