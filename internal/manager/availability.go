package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/internal/dedicated"
	"github.com/example/databases/internal/health"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/shared"
)

// The Lease's times, about those of Kubernetes' own controllers: a leader whose pod is gone is followed after leaseDuration at
// most, one that ends in order after retryPeriod, and one that can't renew for renewDeadline ends itself first.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 8 * time.Second
	retryPeriod   = 2 * time.Second
	// leaseTimeout ends one request. A leader whose API server hangs has ended, its attempt to give the Lease back included (a
	// read and a write), before the Lease runs out: 2 + 8 + 2 + 2 s.
	leaseTimeout = 2 * time.Second
)

// leaseLost is the library's error, which it doesn't export.
const leaseLost = "leader election lost"

// ErrLeaseLost is Run's error where the Lease couldn't be renewed. Reconciles may still be in flight, and another replica may
// lead by now: the process must end at once.
var ErrLeaseLost = fmt.Errorf("the Lease was lost: the API server could not be asked for %s. This replica ends, so that no two work at once; its pod starts it again", renewDeadline)

// lease makes the Lease the lock of the manager: only who holds it reconciles. Without a POD_NAME there is none, and only one
// program may run.
//
// The library would make the lock itself, but under a random identity; here the Lease names the pod.
func lease(options *ctrl.Options, config *rest.Config, s settings.Settings) error {
	if s.PodName == "" {
		return nil
	}
	config = rest.CopyConfig(config)
	config.Timeout = leaseTimeout
	c, err := coordinationv1.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return fmt.Errorf("preparing the Lease: %w", err)
	}
	options.LeaderElection = true
	options.LeaderElectionID = s.ControllerName
	options.LeaderElectionResourceLockInterface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: s.PodNamespace, Name: s.ControllerName},
		Client:     c,
		LockConfig: resourcelock.ResourceLockConfig{Identity: s.PodName},
	}
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = new(leaseDuration), new(renewDeadline), new(retryPeriod)
	return nil
}

// quietEnd is a log without the error that the library reports at each end in order: that the Lease isn't held any more, which
// it has just given back.
type quietEnd struct{ slog.Handler }

// Handle implements slog.Handler.
func (h quietEnd) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "error received after stop sequence was engaged" {
		expected := false
		r.Attrs(func(a slog.Attr) bool {
			expected = expected || a.Value.String() == leaseLost
			return !expected
		})
		if expected {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quietEnd) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietEnd{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h quietEnd) WithGroup(name string) slog.Handler { return quietEnd{h.Handler.WithGroup(name)} }

// serveProbes adds the probes' server to the manager, where the settings ask for one.
func serveProbes(mgr ctrl.Manager, o Options) error {
	if o.Settings.ProbesAddr == "" {
		return nil
	}
	synced := &synced{cache: mgr.GetCache(), kinds: append(shared.Watched(), dedicated.Watched()...)}
	if err := mgr.Add(synced); err != nil {
		return err
	}
	server, err := health.NewServer(health.Options{
		Addr: o.Settings.ProbesAddr, PEMFile: o.Settings.ProbesTLSFile, Synced: synced.check, Log: o.Log,
	})
	if err != nil {
		return err
	}
	return mgr.Add(server)
}

// synced waits until the cache has seen all that was there of the kinds that the controllers watch. The cache itself can't
// tell: before they start to watch it knows of no kind and says that it has synced.
type synced struct {
	cache cache.Cache
	kinds []client.Object
	done  atomic.Bool
}

// NeedLeaderElection says that a standby is ready too, with its caches warm.
func (s *synced) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *synced) Start(ctx context.Context) error {
	for _, kind := range s.kinds {
		// A kind that isn't installed is an error, which the controllers themselves end the program for.
		err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := s.cache.GetInformer(ctx, kind)
			return err == nil, nil
		})
		if err != nil {
			return nil //nolint:nilerr // told to stop
		}
	}
	s.done.Store(true)
	return nil
}

func (s *synced) check() error {
	if !s.done.Load() {
		return errors.New("the caches haven't synced yet")
	}
	return nil
}
