package dedicated

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/ownership"
)

// growth is what a wished size means for the claims that are there.
type growth struct {
	// grow are the claims to be made larger.
	grow []corev1.PersistentVolumeClaim
	// shrunk is the size of a claim that is larger than the wish; zero for none.
	shrunk resource.Quantity
	// resizing says that a volume hasn't its claim's size yet.
	resizing bool
	// refusal is why a volume can't get its size, as the claim says; empty for none.
	refusal string
}

// planGrowth compares by value, so that 1024Mi is 1Gi. It is a pure function.
func planGrowth(want resource.Quantity, claims []corev1.PersistentVolumeClaim, replicas int) growth {
	var g growth
	for _, claim := range claims {
		if claim.DeletionTimestamp != nil {
			continue
		}
		mounted := ordinal(claim.Name) < replicas // what no pod has grows only once one has it
		request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		bound := claim.Status.Phase == corev1.ClaimBound
		switch want.Cmp(request) {
		case 1:
			if !bound { // only a bound one can grow
				g.resizing = g.resizing || mounted
				continue
			}
			g.grow = append(g.grow, claim)
		case -1:
			if request.Cmp(g.shrunk) > 0 {
				g.shrunk = request
			}
		case 0:
			if bound && mounted && capacity.Cmp(request) < 0 {
				g.resizing = true
				g.refusal = resizeError(claim)
			}
		}
	}
	return g
}

// resizeError is the claim's own word for why it doesn't grow.
func resizeError(claim corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		failed := c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError
		if failed && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("%s: %s", claim.Name, c.Message)
		}
	}
	return ""
}

// growVolumes makes the claims as large as the spec wishes and says what is left to wait for or to mend.
func (r *Reconciler) growVolumes(ctx context.Context, db *databasev1.Database, want resource.Quantity, claims []corev1.PersistentVolumeClaim) *problem {
	g := planGrowth(want, claims, int(db.Spec.Replicas))
	for i := range g.grow {
		claim := g.grow[i].DeepCopy()
		before := claim.DeepCopy()
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = want
		err := r.Client.Patch(ctx, claim, client.MergeFrom(before), client.FieldOwner(r.FieldManager))
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			return &problem{reason: databasev1.ReasonStorageNotExpandable, stuck: true, message: fmt.Sprintf(
				"The volume of %q can't grow to %s: its StorageClass doesn't allow it (allowVolumeExpansion), or it wasn't made by a provisioner.",
				claim.Name, db.Spec.Storage.Size)}
		case err != nil:
			return &problem{reason: databasev1.ReasonStorageResizing, message: "The volumes could not be resized.",
				err: fmt.Errorf("patching the claim %q: %w", claim.Name, err)}
		}
	}
	switch {
	case !g.shrunk.IsZero():
		return &problem{reason: databasev1.ReasonStorageShrinkRejected, stuck: true, message: fmt.Sprintf(
			"Volumes can't shrink: they have %s and the spec asks for %s. Set spec.storage.size to %s or more.",
			g.shrunk.String(), db.Spec.Storage.Size, g.shrunk.String())}
	case g.refusal != "":
		return &problem{reason: databasev1.ReasonStorageNotExpandable, message: "A volume doesn't grow: " + g.refusal}
	case len(g.grow) > 0 || g.resizing:
		return &problem{reason: databasev1.ReasonStorageResizing, message: "The volumes are growing to " + db.Spec.Storage.Size + "."}
	}
	return nil
}

// checkClaims refuses to take over claims of the StatefulSet's names that no Database made: the StatefulSet would use
// whatever data they hold. It reports whether there are some of an earlier Database.
func (r *Reconciler) checkClaims(ctx context.Context, db *databasev1.Database) (adopted bool, err error) {
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := r.Live.List(ctx, &all, client.InNamespace(db.Namespace)); err != nil {
		return false, err
	}
	for _, claim := range all.Items {
		if !slices.Contains(claimNames(db), claim.Name) {
			continue
		}
		if claim.DeletionTimestamp != nil {
			return false, &leavingError{"PersistentVolumeClaim", claim.Name}
		}
		if claim.Labels[ownership.ManagedByLabel] != ownership.ManagedByValue || claim.Labels[databaseLabel] != db.Name {
			return false, &conflictError{"PersistentVolumeClaim", claim.Name}
		}
		adopted = true
	}
	return adopted, nil
}

func claimNames(db *databasev1.Database) []string {
	names := make([]string, maxReplicas)
	for i := range names {
		names[i] = claimName(db, i)
	}
	return names
}

// deleteVolumes deletes the Database's claims, and with them the data.
func (r *Reconciler) deleteVolumes(ctx context.Context, db *databasev1.Database) error {
	var claims corev1.PersistentVolumeClaimList
	if err := r.Live.List(ctx, &claims, client.InNamespace(db.Namespace), client.MatchingLabels(childLabels(db))); err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.DeletionTimestamp != nil || !slices.Contains(claimNames(db), claim.Name) {
			continue
		}
		err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the claim %q: %w", claim.Name, err)
		}
	}
	return nil
}
