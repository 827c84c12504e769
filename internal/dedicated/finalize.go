package dedicated

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	databasev1 "github.com/example/databases/api/database/v1"
)

// finalize carries out the deletionPolicy, then lets the Database go: Kubernetes' garbage collector deletes what it
// owns. A claim that a pod still uses is deleted once the pod has ended.
func (r *Reconciler) finalize(ctx context.Context, stored *unstructured.Unstructured, db *databasev1.Database) error {
	if !controllerutil.ContainsFinalizer(db, databasev1.Finalizer) {
		return nil
	}
	if db.Spec.DeletionPolicy == databasev1.DeletionPolicyDelete {
		if err := r.deleteVolumes(ctx, db); err != nil {
			return err
		}
	} else {
		r.Recorder.Eventf(db, nil, corev1.EventTypeNormal, databasev1.ReasonVolumesRetained, "Delete",
			"The volumes stay (deletionPolicy Retain); a Database of this name takes them over, and kubectl delete pvc -l app=database,database=%s deletes them.", db.Name)
	}
	log.FromContext(ctx).Info("let go", "deletionPolicy", db.Spec.DeletionPolicy)
	return r.patchFinalizers(ctx, stored, controllerutil.RemoveFinalizer)
}
