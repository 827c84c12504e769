package shared

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres"
)

// toRetain is how a deletion goes on that waits for a server.
const toRetain = " Until then nothing can be dropped; to leave the data and go on, set spec.deletionPolicy to Retain."

// finalize carries out the deletionPolicy, then lets the Database go. It needs neither the Secret nor, with Retain,
// the server.
func (r *Reconciler) finalize(ctx context.Context, db *v1alpha1.Database) (*failure, error) {
	if !controllerutil.ContainsFinalizer(db, v1alpha1.Finalizer) {
		return nil, nil
	}
	if db.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		if failed, err := r.drop(ctx, db); failed != nil || err != nil {
			return failed, err
		}
	}
	log.FromContext(ctx).Info("let go", "deletionPolicy", db.Spec.DeletionPolicy)
	r.Telemetry.Forget(db.UID)
	return nil, r.patchFinalizers(ctx, db, controllerutil.RemoveFinalizer)
}

// drop drops the database and the role. Where their server has ended there is nothing that could be dropped any more:
// with a namespace all goes in any order, and the server may go first. The error is the API server's.
func (r *Reconciler) drop(ctx context.Context, db *v1alpha1.Database) (*failure, error) {
	t, failed := r.target(ctx, db)
	if failed == nil {
		err := t.admin.Drop(ctx, db.Spec.Name, r.claim(db))
		if failed = t.failure(err); failed != nil && t.server != "" && postgres.KindOf(err) == postgres.KindUnavailable {
			failed.message += toRetain
		}
		return failed, nil
	}
	failed.message += toRetain
	if t.server == "" {
		return failed, nil
	}
	ended, err := r.Servers.Ended(ctx, serverOf(db))
	if err != nil || !ended {
		return failed, err
	}
	if db.Status.SecretVersion != "" { // otherwise it was never made
		r.Recorder.Eventf(db, nil, corev1.EventTypeNormal, v1alpha1.ReasonDatabaseLeft, "Delete",
			"The database %q could not be dropped, because the server %q has ended: it is still on the server's volumes, as long as there are any.", db.Spec.Name, t.server)
	}
	return nil, nil
}
