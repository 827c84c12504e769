package shared

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/ownership"
	"github.com/example/databases/internal/reconciling"
)

const (
	// ControllerName is the controller's name in logs and metrics.
	ControllerName = "database"

	specNameIndex  = "spec.name"
	serverRefIndex = "spec.serverRef.name"
)

// SecretCache is how the manager's cache is to see Secrets: only ours, so that memory doesn't grow with the
// cluster's others.
func SecretCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Label: labels.SelectorFromSet(labels.Set{ownership.ManagedByLabel: ownership.ManagedByValue})},
	}
}

// Watched are the kinds that the controller watches, as the cache holds them.
func Watched() []client.Object {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return []client.Object{&v1alpha1.Database{}, secret}
}

// SetupWithManager registers the controller, with that many workers.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	for index, value := range map[string]func(*v1alpha1.Database) string{
		specNameIndex:  func(db *v1alpha1.Database) string { return db.Spec.Name },
		serverRefIndex: func(db *v1alpha1.Database) string { return db.Spec.ServerRef.Name },
	} {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Database{}, index, func(o client.Object) []string {
			if key := value(o.(*v1alpha1.Database)); key != "" {
				return []string{key}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.Database{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		Watches(&v1alpha1.Database{}, handler.Funcs{CreateFunc: first, UpdateFunc: changed, DeleteFunc: r.deleted}).
		Watches(&corev1.Secret{}, owner, builder.OnlyMetadata).
		Watches(newServer(), handler.Funcs{CreateFunc: r.serverMade, UpdateFunc: r.serverChanged, DeleteFunc: r.serverGone}).
		WatchesRawSource(source.Func(r.Waiting.start)).
		WithLogConstructor(reconciling.Log(mgr.GetLogger(), ControllerName)).
		WithOptions(reconciling.Options(workers)).
		Complete(r.Telemetry.Reconciler(r))
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// first looks at a Database that is new to this process. Those that were ready when it started can wait for those that
// something happens to; the library would let all wait that were there when it started, also those that nobody has
// provisioned yet.
func first(_ context.Context, e event.CreateEvent, q queue) {
	db, ok := e.Object.(*v1alpha1.Database)
	if !ok {
		return
	}
	priority := 0
	if e.IsInInitialList && db.DeletionTimestamp == nil && isReady(db) {
		priority = handler.LowPriority
	}
	add(q, db, priority)
}

// changed looks at a Database whose wish changed, at once.
func changed(_ context.Context, e event.UpdateEvent, q queue) {
	if relevant(e) {
		add(q, e.ObjectNew, 0)
	}
}

func add(q queue, o client.Object, priority int) {
	req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, req)
		return
	}
	q.Add(req)
}

// relevant passes what may change what is to be done: not our own writes of the status.
func relevant(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
		slices.Contains(e.ObjectOld.GetFinalizers(), v1alpha1.Finalizer) && !slices.Contains(e.ObjectNew.GetFinalizers(), v1alpha1.Finalizer)
}

// deleted forgets a Database that is gone, and looks again at those that wished for its name.
func (r *Reconciler) deleted(ctx context.Context, e event.DeleteEvent, q queue) {
	gone, ok := e.Object.(*v1alpha1.Database)
	if !ok {
		return
	}
	add(q, gone, 0)
	var rivals v1alpha1.DatabaseList
	if err := r.Client.List(ctx, &rivals, client.MatchingFields{specNameIndex: gone.Spec.Name}, client.DisableReadYourWritesConsistency); err != nil {
		return // they look again by themselves, later
	}
	for i := range rivals.Items {
		if rivals.Items[i].UID != gone.UID {
			add(q, &rivals.Items[i], 0)
		}
	}
}
