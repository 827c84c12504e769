package dedicated

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/ownership"
	"github.com/example/databases/internal/reconciling"
)

// ControllerName is the controller's name in logs and metrics.
const ControllerName = "server"

// children are the kinds that the Database controls and that are watched.
func children() []client.Object {
	return []client.Object{
		&appsv1.StatefulSet{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	}
}

// Cache is how the manager's cache is to see the kinds that this controller watches: only the objects that are ours,
// so that memory doesn't grow with the cluster's others.
func Cache() map[client.Object]cache.ByObject {
	byObject := map[client.Object]cache.ByObject{}
	for _, kind := range append(children(), &corev1.Pod{}, &corev1.PersistentVolumeClaim{}) {
		byObject[kind] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{ownership.ManagedByLabel: ownership.ManagedByValue})}
	}
	return byObject
}

// Watched are the kinds that the controller watches, as the cache holds them.
func Watched() []client.Object {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return append(children(), newUnstructured(), secret, &corev1.Pod{}, &corev1.PersistentVolumeClaim{})
}

// SetupWithManager registers the controller, with that many workers.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &databasev1.Database{}, handler.OnlyControllerOwner())
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(newUnstructured(), builder.WithPredicates(predicate.Funcs{UpdateFunc: wishChanged})).
		Watches(&corev1.Secret{}, owner, builder.OnlyMetadata).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byLabel), builder.WithPredicates(predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(byLabel), builder.WithPredicates(predicate.Funcs{UpdateFunc: claimChanged}))
	b.Watches(&v1alpha1.Database{}, handler.EnqueueRequestsFromMapFunc(r.byUse), builder.WithPredicates(predicate.Funcs{CreateFunc: unseen, UpdateFunc: useChanged}))
	for _, kind := range children() {
		b.Watches(kind, owner, builder.WithPredicates(predicate.Funcs{UpdateFunc: childChanged}))
	}
	if err := r.setupRoles(mgr, workers); err != nil {
		return err
	}
	return b.
		WithLogConstructor(reconciling.Log(mgr.GetLogger(), ControllerName)).
		WithOptions(reconciling.Options(workers)).
		Complete(r.Telemetry.Reconciler(r))
}

// byLabel finds the Database of a pod or a claim, which the StatefulSet made.
func byLabel(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[databaseLabel]
	if name == "" {
		name = o.GetLabels()[inspectsLabel]
	}
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// wishChanged passes what may change what is to be done: not our own writes of the status.
func wishChanged(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
		slices.Contains(e.ObjectOld.GetFinalizers(), databasev1.Finalizer) && !slices.Contains(e.ObjectNew.GetFinalizers(), databasev1.Finalizer)
}

// podChanged doesn't pass Patroni's heartbeat, which patches an annotation of each pod at each loop.
func podChanged(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	if !ok1 || !ok2 {
		return true
	}
	a, b := memberOf(before), memberOf(after)
	a.Role, b.Role = "", "" // the label says it
	return a != b || before.Labels[roleLabel] != after.Labels[roleLabel] ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(before.Status, after.Status)
}

func claimChanged(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*corev1.PersistentVolumeClaim)
	after, ok2 := e.ObjectNew.(*corev1.PersistentVolumeClaim)
	return !ok1 || !ok2 || !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status, after.Status) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
}

// heartbeats are the annotations that Patroni writes at each loop into the ConfigMaps of its store.
var heartbeats = []string{"renewTime", "optime", "slots", "failsafe", "ttl", "retain_slots"}

// childChanged doesn't pass Patroni's heartbeat in the leader's ConfigMap.
func childChanged(e event.UpdateEvent) bool {
	if _, ok := e.ObjectNew.(*corev1.ConfigMap); !ok {
		return true
	}
	before, after := maps.Clone(e.ObjectOld.GetAnnotations()), maps.Clone(e.ObjectNew.GetAnnotations())
	for _, name := range heartbeats {
		delete(before, name)
		delete(after, name)
	}
	return !maps.Equal(before, after) || !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
		!equality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences()) ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}
