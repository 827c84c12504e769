package reconciling

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 5 * time.Minute
)

// Options are those of every controller: its number of workers, its backoff, and caches that are warm before it leads.
func Options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		EnableWarmup:            new(true),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, maxBackoff),
	}
}

// Log gives each reconcile's records the controller's name and the object's.
func Log(log logr.Logger, controller string) func(*reconcile.Request) logr.Logger {
	return func(req *reconcile.Request) logr.Logger {
		log := log.WithValues("controller", controller)
		if req != nil {
			log = log.WithValues("namespace", req.Namespace, "name", req.Name)
		}
		return log
	}
}
