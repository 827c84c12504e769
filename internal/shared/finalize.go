package shared

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// finalize carries out the deletionPolicy, then lets the Database go. It needs neither the Secret nor, with Retain,
// the server.
func (r *Reconciler) finalize(ctx context.Context, db *v1alpha1.Database) (*failure, error) {
	if !controllerutil.ContainsFinalizer(db, v1alpha1.Finalizer) {
		return nil, nil
	}
	if db.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		if r.Admin == nil {
			return fail(v1alpha1.ReasonNoServer, errors.New("no server"),
				"The controller runs without a PostgreSQL server, so nothing can be dropped; to leave the data and go on, set spec.deletionPolicy to Retain."), nil
		}
		if err := r.Admin.Drop(ctx, db.Spec.Name, r.claim(db)); err != nil {
			return serverFailure(err), nil
		}
	}
	log.FromContext(ctx).Info("let go", "deletionPolicy", db.Spec.DeletionPolicy)
	r.Telemetry.Forget(db.UID)
	return nil, r.patchFinalizers(ctx, db, controllerutil.RemoveFinalizer)
}
