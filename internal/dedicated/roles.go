package dedicated

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/reconciling"
)

// rolesControllerName is the controller's name in logs and metrics.
const rolesControllerName = "server-roles"

// setupRoles registers the controller that keeps the primary's label where it belongs. It is one of its own because
// the other one may be waiting for the very primary that doesn't answer any more.
func (r *Reconciler) setupRoles(mgr ctrl.Manager, workers int) error {
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &databasev1.Database{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(mgr).
		Named(rolesControllerName).
		Watches(&corev1.ConfigMap{}, owner, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetAnnotations()[leaderAnnotation] != "" },
			UpdateFunc: leaderChanged,
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byLabel), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetLabels()[roleLabel] == rolePrimary },
			UpdateFunc: func(e event.UpdateEvent) bool {
				return e.ObjectNew.GetLabels()[roleLabel] == rolePrimary && e.ObjectOld.GetLabels()[roleLabel] != rolePrimary
			},
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		WithLogConstructor(reconciling.Log(mgr.GetLogger(), rolesControllerName)).
		WithOptions(reconciling.Options(workers)).
		Complete(reconcile.Func(r.keepRoles))
}

// leaderAnnotation names the primary in the ConfigMap of Patroni's store.
const leaderAnnotation = "leader"

func leaderChanged(e event.UpdateEvent) bool {
	return e.ObjectOld.GetAnnotations()[leaderAnnotation] != e.ObjectNew.GetAnnotations()[leaderAnnotation]
}

// keepRoles looks only at the cache, unless a label is wrong.
func (r *Reconciler) keepRoles(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := reconciling.Detach(ctx, reconcileTimeout)
	defer cancel()
	stored := newUnstructured()
	if err := r.Client.Get(ctx, req.NamespacedName, stored); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	db := &databasev1.Database{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, db); err != nil {
		return reconcile.Result{}, nil // the other controller says so
	}
	if db.Annotations[databasev1.PausedAnnotation] == "true" {
		return reconcile.Result{}, nil
	}
	o, err := r.observe(ctx, db)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconciling.RetryConflict(r.correctRoles(ctx, db, o))
}

// correctRoles takes the primary's label off every pod that Patroni's store doesn't name: a primary that is frozen or
// cut off can't do it itself.
func (r *Reconciler) correctRoles(ctx context.Context, db *databasev1.Database, o *observed) error {
	for i := range o.pods {
		pod := &o.pods[i]
		if pod.Labels[roleLabel] != rolePrimary || o.leader == "" || pod.Name == o.leader {
			continue
		}
		store := &metav1.PartialObjectMetadata{}
		store.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.Name + suffixLeader}, store); err != nil {
			return client.IgnoreNotFound(err)
		}
		if leader := store.Annotations[leaderAnnotation]; leader == "" || leader == pod.Name {
			continue // the cache was behind
		}
		before := pod.DeepCopy()
		pod.Labels[roleLabel] = roleReplica
		err := r.Client.Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(r.FieldManager))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("taking the primary's label off the pod %q: %w", pod.Name, err)
		}
	}
	return nil
}
