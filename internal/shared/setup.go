package shared

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/example/databases/api/postgres/v1alpha1"
)

const (
	// ControllerName is the controller's name in logs and metrics.
	ControllerName = "database"

	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 5 * time.Minute

	specNameIndex = "spec.name"
)

// SecretCache is how the manager's cache is to see Secrets: only ours, so that memory doesn't grow with the
// cluster's others.
func SecretCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Label: labels.SelectorFromSet(labels.Set{ManagedByLabel: ManagedByValue})},
	}
}

// SetupWithManager registers the controller, with that many workers.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Database{}, specNameIndex,
		func(o client.Object) []string { return []string{o.(*v1alpha1.Database).Spec.Name} })
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&v1alpha1.Database{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: relevant})).
		Owns(&corev1.Secret{}, builder.OnlyMetadata).
		Watches(&v1alpha1.Database{}, handler.Funcs{DeleteFunc: r.wakeRivals}).
		WatchesRawSource(source.Func(r.Waiting.start)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			EnableWarmup:            new(true),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, maxBackoff),
		}).
		Complete(r)
}

// relevant passes what may change what is to be done: not our own writes of the status.
func relevant(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
		slices.Contains(e.ObjectOld.GetFinalizers(), v1alpha1.Finalizer) && !slices.Contains(e.ObjectNew.GetFinalizers(), v1alpha1.Finalizer)
}

// wakeRivals looks again at the Databases that wished for the name of one that is gone.
func (r *Reconciler) wakeRivals(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	gone, ok := e.Object.(*v1alpha1.Database)
	if !ok {
		return
	}
	var rivals v1alpha1.DatabaseList
	if err := r.Client.List(ctx, &rivals, client.MatchingFields{specNameIndex: gone.Spec.Name}); err != nil {
		return // they look again by themselves, later
	}
	for _, rival := range rivals.Items {
		if rival.UID != gone.UID {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&rival)})
		}
	}
}
