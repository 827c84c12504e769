package manager

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/dedicated"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/reload"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/shared"
	"github.com/example/databases/internal/telemetry"
)

// shutdownGrace is how long the manager waits for reconciles in flight; they end themselves a little earlier.
const shutdownGrace = 20 * time.Second

// defaultLoginInterval is how often each role's login is checked: only a login shows that a password was changed in
// PostgreSQL itself, and it costs the server as much as 200 statements.
const defaultLoginInterval = 24 * time.Hour

// Options are what the environment doesn't say.
type Options struct {
	Settings settings.Settings
	Log      *slog.Logger
	// SQL is put around each round trip to PostgreSQL and HTTP around each request to the API server; nil for none.
	SQL  postgres.Interceptor
	HTTP func(http.RoundTripper) http.RoundTripper
	// Telemetry takes part in everything; nil for none.
	Telemetry *telemetry.Telemetry
	// Servers finds the dedicated servers that shared Databases name; nil for those of this program.
	Servers shared.Servers
	// LoginInterval is the mean time between two checks of a role's login; 0 for a day.
	LoginInterval time.Duration
	// StuckAfter is after which a standby that doesn't come to stream is cloned anew; 0 for the controller's default.
	StuckAfter time.Duration
}

// Logger makes log the logger of the libraries too, once for the process.
func Logger(log *slog.Logger) {
	logger := logr.FromSlogHandler(log.Handler())
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// Run runs the controllers until ctx ends and reconciles in flight have ended. Where ctx ends while they are being started there
// are none: it returns at once, and what it was waiting for is left to the end of the process. To be stopped is no error.
func Run(ctx context.Context, o Options) error {
	asking, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var begun atomic.Bool
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, asking, o, func() { begun.Store(true) }) }()
	var starting bool
	var err error
	select {
	case err = <-ended:
		starting = !begun.Load()
	case <-ctx.Done():
		// The library would wait for its caches, and for the kinds that the API server serves, until that has answered.
		if starting = !begun.Load(); starting {
			err = context.Cause(ctx)
		} else {
			err = <-ended
		}
	}
	switch {
	case err == nil:
		o.Log.Info("stopped")
	case starting && ctx.Err() != nil:
		o.Log.Info("stopped while starting", "err", err)
	default:
		return err
	}
	return nil
}

// errStopped refuses requests of a start that nobody waits for any more.
var errStopped = errors.New("the program has been stopped")

// run asks the API server until asking ends, and calls begun once the caches have synced, before anything is reconciled.
func run(ctx, asking context.Context, o Options, begun func()) error {
	s := o.Settings
	o = instrument(o)
	config, options := connection(o), managerOptions(o)
	config.Wrap(transport.ContextCanceller(asking, errStopped))
	if err := lease(&options, config, s); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	cluster, err := ClusterID(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	reconciler := &shared.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cluster: cluster,
		FieldManager: s.ControllerName, Resync: s.Resync, LoginInterval: o.LoginInterval,
		Recorder: mgr.GetEventRecorder(s.ControllerName), Waiting: shared.NewWaiting(),
		Scenarios: fault.NewScenarios(s.FaultTrustedPrefix, s.FaultMaxDelay),
		Telemetry: o.Telemetry.Controller(telemetry.KindShared),
	}
	if reconciler.LoginInterval == 0 {
		reconciler.LoginInterval = defaultLoginInterval
	}
	lost := false
	var up *atomic.Bool
	if s.Postgres != nil {
		server, err := postgres.NewServer(s.Postgres.AdminDSNFile, o.SQL)
		if err != nil {
			return fmt.Errorf("POSTGRES_ADMIN_DSN_FILE: %w", err)
		}
		defer func() {
			if !lost { // it would wait for calls in flight, as if there were a Lease still
				server.Close()
			}
		}()
		server.Notify(follow(o.Log, reconciler.Waiting))
		if up, err = watchServer(mgr, o, server); err != nil {
			return err
		}
		server.NotifyDSN(func(err error) {
			if err != nil {
				o.Log.Error("the admin's new DSN can't be used; the old one stays in use", "err", err)
				return
			}
			o.Log.Info("the admin's DSN can be used again")
		})
		reconciler.Admin = fault.Admin(server)
		reconciler.Endpoint = endpoint(*s.Postgres, server)
	}
	servers, err := setupDedicated(mgr, o, reconciler)
	if err != nil {
		return err
	}
	defer func() {
		if !lost {
			servers.Close()
		}
	}()
	if err := reconciler.SetupWithManager(mgr, s.Workers); err != nil {
		return err
	}
	if err := serveProbes(mgr, o); err != nil {
		return err
	}
	if err := observe(mgr, o, up); err != nil {
		return err
	}
	if err := mgr.Add(standby(begun)); err != nil {
		return err
	}
	o.Log.Info("starting", "controller", s.ControllerName, "cluster", cluster)
	if err := mgr.Start(ctx); err != nil {
		if lost = err.Error() == leaseLost; lost {
			return ErrLeaseLost
		}
		return err
	}
	return nil
}

// standby is called once the caches have synced, also where another replica leads.
type standby func()

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s standby) Start(context.Context) error { s(); return nil }

// setupDedicated registers the controller of the dedicated Databases, with what both have in common, and lets the other one
// find the servers.
func setupDedicated(mgr ctrl.Manager, o Options, common *shared.Reconciler) (*dedicated.Servers, error) {
	s := o.Settings
	dial := dedicated.DialDirectly
	if !s.InPod {
		var err error
		if dial, err = dedicated.DialThroughAPI(mgr.GetConfig()); err != nil {
			return nil, fmt.Errorf("preparing port-forwards through the API server: %w", err)
		}
	}
	reconciler := &dedicated.Reconciler{
		Client: common.Client, Live: common.Live, Dial: dial, SQL: o.SQL, Cluster: common.Cluster, Namespace: s.PodNamespace,
		PatroniImage: s.PatroniImage, StuckAfter: o.StuckAfter, FieldManager: common.FieldManager, Resync: common.Resync, LoginInterval: common.LoginInterval,
		Recorder: common.Recorder, Scenarios: fault.NewScenarios(s.FaultTrustedPrefix, s.FaultMaxDelay),
		Telemetry: o.Telemetry.Controller(telemetry.KindDedicated),
	}
	servers := dedicated.NewServers(reconciler)
	if common.Servers = o.Servers; common.Servers == nil {
		common.Servers = servers
	}
	if err := mgr.Add(servers); err != nil {
		return nil, err
	}
	return servers, reconciler.SetupWithManager(mgr, s.Workers)
}

// follow logs the server's going and coming, and wakes those who wait for it.
func follow(log *slog.Logger, waiting *shared.Waiting) func(error) {
	return func(down error) {
		if down == nil {
			log.Info("PostgreSQL can be reached again")
			waiting.Wake()
			return
		}
		log.Error("PostgreSQL can't be used; waiting for it", "err", down)
	}
}

func connection(o Options) *rest.Config {
	c := rest.CopyConfig(o.Settings.Kube)
	if file := c.BearerTokenFile; file != "" {
		// The file is read once a minute, and at once after an answer 401. rest.Config alone doesn't do the latter: where the
		// old token isn't good any more when the new one comes, the Lease would be lost meanwhile.
		c.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(file)))
		c.BearerToken, c.BearerTokenFile = "", ""
	}
	if o.HTTP != nil {
		c.Wrap(o.HTTP)
	}
	return c
}

func managerOptions(o Options) ctrl.Options {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
		v1alpha1.AddToScheme, databasev1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	byObject := shared.SecretCache()
	maps.Copy(byObject, dedicated.Cache())
	options := ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			ByObject:         byObject,
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Client:                  client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true), Unstructured: true}},
		Controller:              config.Controller{SkipNameValidation: new(true)}, // several managers in one test process
		Logger:                  logr.FromSlogHandler(quietEnd{o.Log.Handler()}),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(shutdownGrace),
	}
	if namespace := o.Settings.Namespace; namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return options
}

// ClusterID is what claims call this cluster: the uid of the one namespace that every cluster has from its beginning.
func ClusterID(ctx context.Context, live client.Reader) (string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("reading the Namespace %s, whose uid identifies this cluster: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

// endpoint gives what Secrets say of the server as of now: the DSN's sslmode and the CA file may change.
func endpoint(p settings.Postgres, server *postgres.Server) func() (credentials.Endpoint, error) {
	ca := &certificates{file: reload.NewFile(p.CAFile)}
	return func() (credentials.Endpoint, error) {
		e := credentials.Endpoint{Host: p.Host, Port: p.Port, SSLMode: p.SSLMode}
		if e.SSLMode == "" {
			e.SSLMode = server.SSLMode()
		}
		if p.CAFile == "" {
			return e, nil
		}
		var err error
		e.CA, err = ca.current()
		return e, err
	}
}

// certificates is a CA file of which the last good content stays in use while it can't be read or holds none.
type certificates struct {
	file *reload.File

	mu   sync.Mutex
	good []byte
}

func (c *certificates) current() ([]byte, error) {
	content, err := c.file.Content()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && x509.NewCertPool().AppendCertsFromPEM(content):
		c.good = content
	case c.good == nil && err == nil:
		return nil, errors.New("the CA file has no PEM certificate")
	case c.good == nil:
		return nil, err
	}
	return c.good, nil
}
