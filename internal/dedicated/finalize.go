package dedicated

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/reconciling"
)

// finalize waits for those who use the server, stops it, carries out the deletionPolicy, then lets the Database go:
// Kubernetes' garbage collector deletes what else it owns. Once the stop has begun it goes on, whoever comes. The pods go
// first, in peace: Patroni needs its store and its rights to the end, and the StatefulSet would make claims again that are
// deleted before it.
func (r *Reconciler) finalize(ctx context.Context, stored *unstructured.Unstructured, db *databasev1.Database) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(db, databasev1.Finalizer) {
		return reconcile.Result{}, nil
	}
	runs, err := r.serverRuns(ctx, db)
	if err != nil {
		return reconcile.Result{}, err
	}
	if runs {
		users, err := r.users(ctx, db)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case len(users) > 0:
			return r.awaitUsers(ctx, stored, db, users)
		}
	}
	o, err := r.observe(ctx, db)
	if err != nil {
		return reconcile.Result{}, err
	}
	// Who led while the Database was paused, say, or leads while the others have stopped already, ready or not.
	if o.leader != "" {
		if err := r.markClaim(ctx, o, o.leader, time.Now()); err != nil {
			return reconciling.RetryConflict(err)
		}
	}
	stopped, err := r.stopServer(ctx, db)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case !stopped:
		return reconcile.Result{RequeueAfter: waitingDelay}, nil // the pods' end wakes it
	}
	if db.Spec.DeletionPolicy == databasev1.DeletionPolicyDelete {
		if err := r.deleteVolumes(ctx, db); err != nil {
			return reconcile.Result{}, err
		}
	} else {
		r.Recorder.Eventf(db, nil, corev1.EventTypeNormal, databasev1.ReasonVolumesRetained, "Delete",
			"The volumes stay (deletionPolicy Retain); a Database of this name takes them over, and kubectl delete pvc -l app=database,database=%s deletes them.", db.Name)
	}
	log.FromContext(ctx).Info("let go", "deletionPolicy", db.Spec.DeletionPolicy)
	r.forget(db.UID)
	r.Telemetry.Forget(db.UID)
	return reconciling.RetryConflict(r.patchFinalizers(ctx, stored, controllerutil.RemoveFinalizer))
}

// serverRuns reports that nobody has begun to stop the server.
func (r *Reconciler) serverRuns(ctx context.Context, db *databasev1.Database) (bool, error) {
	set := &appsv1.StatefulSet{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(db), set)
	return err == nil && set.DeletionTimestamp == nil && owner(db).Owns(set), client.IgnoreNotFound(err)
}

// stopServer deletes the StatefulSet and reports whether its pods have ended.
func (r *Reconciler) stopServer(ctx context.Context, db *databasev1.Database) (bool, error) {
	set := &appsv1.StatefulSet{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(db), set)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, err
	case owner(db).Owns(set) && set.DeletionTimestamp == nil:
		err := r.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting the StatefulSet: %w", err)
		}
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(db.Namespace), client.MatchingLabels(childLabels(db))); err != nil {
		return false, err
	}
	return len(pods.Items) == 0, nil
}
