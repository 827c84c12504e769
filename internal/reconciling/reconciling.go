// Package reconciling has what a reconcile needs whatever the kind of its object.
//
// Invariants: a reconcile that began before the program was told to stop may end what it began, within ShutdownGrace.
package reconciling

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// ShutdownGrace is how long a reconcile may go on after the manager was told to stop. It is below the manager's own
	// grace, so that the Lease is released in time.
	ShutdownGrace = 17 * time.Second
	// ConflictDelay is the wait for the cache after a write that met a newer object.
	ConflictDelay = 200 * time.Millisecond
)

// Detach lets a reconcile end what it began when the manager stops: the manager cancels ctx at once. timeout ends one that
// hangs.
func Detach(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(ShutdownGrace, cancel)
		context.AfterFunc(detached, func() { timer.Stop() })
	})
	return detached, func() { stop(); cancel() }
}

// RetryConflict waits for the cache where a write met a newer object, which is no failure, and forgets one that is
// gone.
func RetryConflict(err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: ConflictDelay}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// Resync spreads the next looks around the mean, and lets everything that happened go first.
func Resync(mean time.Duration) reconcile.Result {
	after := time.Duration(float64(mean) * (0.75 + rand.Float64()/2))
	return reconcile.Result{RequeueAfter: after, Priority: ptr.To(handler.LowPriority)}
}

// PatchFinalizers adds or removes a finalizer by a patch that names the object's resourceVersion.
func PatchFinalizers(ctx context.Context, c client.Client, object client.Object, finalizer string, change func(client.Object, string) bool, options ...client.PatchOption) error {
	before := object.DeepCopyObject().(client.Object)
	if !change(object, finalizer) {
		return nil
	}
	return c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...)
}
