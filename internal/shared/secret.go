package shared

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
)

const (
	// ManagedByLabel marks our Secrets; only Secrets with it are watched.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByValue is the label's value.
	ManagedByValue = "databases"
	// secretType is the type of a Secret that the Service Binding specification can consume.
	secretType corev1.SecretType = "servicebinding.io/postgresql"
	// connectionAnnotation identifies what the Secret tells of the server, so that the cache alone shows whether it
	// is up to date.
	connectionAnnotation = "postgres.example.com/connection"
)

// readSecret reads the Database's Secret from the API server; nil where there is none. A Secret that isn't ours is a
// failure, and so is every error but NotFound: a new password must not come from a reading error.
func (r *Reconciler) readSecret(ctx context.Context, db *v1alpha1.Database) (*corev1.Secret, *failure) {
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.SecretName()}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fail(v1alpha1.ReasonSecretApplyFailed, fmt.Errorf("reading the Secret: %w", err), "The Secret could not be read.")
	case !ours(secret, db):
		return nil, fail(v1alpha1.ReasonSecretConflict, fmt.Errorf("the Secret %q isn't this Database's", secret.Name), fmt.Sprintf(
			"A Secret %q exists that isn't this Database's. Delete or rename it, or make the Database under another metadata.name.", secret.Name))
	}
	return secret, nil
}

// ours reports whether the Secret belongs to the Database: it controls it, or the Secret carries our label and is
// controlled by nothing, or by a Database of this name that is no more (a restored backup).
func ours(secret *corev1.Secret, db *v1alpha1.Database) bool {
	controller := metav1.GetControllerOf(secret)
	if controller != nil && controller.UID == db.UID {
		return true
	}
	return secret.Labels[ManagedByLabel] == ManagedByValue && (controller == nil || ofThisName(*controller, db))
}

// ofThisName reports a reference to a Database of this name, whatever its uid.
func ofThisName(ref metav1.OwnerReference, db *v1alpha1.Database) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == v1alpha1.GroupVersion.Group && ref.Kind == v1alpha1.DatabaseKind && ref.Name == db.Name
}

// passwordOf is the Secret's password, and a new one, to be set, where it has none.
func passwordOf(secret *corev1.Secret) (password string, isNew bool) {
	if secret != nil && len(secret.Data["password"]) > 0 {
		return string(secret.Data["password"]), false
	}
	return rand.Text(), true
}

// secretVersion names one state of one Secret.
func secretVersion(secret metav1.Object) string {
	return string(secret.GetUID()) + "/" + secret.GetResourceVersion()
}

// applySecret brings the Secret to the wish and returns the version that holds the password. secret is the one that
// was read, nil for none. It fails with errSecretRaced where the Secret was deleted, replaced or created meanwhile.
func (r *Reconciler) applySecret(ctx context.Context, db *v1alpha1.Database, secret *corev1.Secret, endpoint Endpoint, password string) (string, error) {
	data := endpoint.data(db.Spec.Name, password)
	if secret != nil && upToDate(secret, db, endpoint, data) {
		return secretVersion(secret), nil
	}
	if err := r.removeStaleOwners(ctx, db, secret); err != nil {
		return "", raced(err)
	}
	wish := corev1ac.Secret(db.SecretName(), db.Namespace).
		WithType(secretType).
		WithLabels(map[string]string{ManagedByLabel: ManagedByValue}).
		WithAnnotations(map[string]string{connectionAnnotation: endpoint.hash()}).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind(v1alpha1.DatabaseKind).
			WithName(db.Name).WithUID(db.UID).WithController(true).WithBlockOwnerDeletion(true)).
		WithData(data)
	options := []client.ApplyOption{client.FieldOwner(r.FieldManager), client.DisableReadYourWritesConsistency}
	if secret != nil {
		// The uid lets the apply fail where the Secret was deleted, instead of bringing the old password back, and the
		// resourceVersion where it was edited, instead of undoing the edit.
		wish.WithUID(secret.UID).WithResourceVersion(secret.ResourceVersion).WithType(secret.Type)
		options = append(options, client.ForceOwnership)
	}
	// Without force a Secret that somebody made meanwhile is not overwritten: its type conflicts, or its fields. (The
	// consistency that is switched off would start a second watch, of whole Secrets.)
	if err := r.Client.Apply(ctx, wish, options...); err != nil {
		return "", raced(fmt.Errorf("applying the Secret: %w", err))
	}
	return string(*wish.UID) + "/" + *wish.ResourceVersion, nil
}

// raced turns the API server's answers that mean "this isn't the Secret that you read" into errSecretRaced.
func raced(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) && immutable(err) {
		return fmt.Errorf("%w: %w", errSecretRaced, err)
	}
	return err
}

// immutable reports a refusal of the uid or the type: another Secret took the place.
func immutable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid" || c.Field == "type"
	})
}

// removeStaleOwners removes references to Databases of this name that are no more: two controllers can't be.
func (r *Reconciler) removeStaleOwners(ctx context.Context, db *v1alpha1.Database, secret *corev1.Secret) error {
	if secret == nil {
		return nil
	}
	stale := func(ref metav1.OwnerReference) bool { return ref.UID != db.UID && ofThisName(ref, db) }
	if !slices.ContainsFunc(secret.OwnerReferences, stale) {
		return nil
	}
	before := secret.DeepCopy()
	secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, stale)
	err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(r.FieldManager), client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("removing stale owners from the Secret: %w", err)
	}
	return nil
}

// upToDate reports that an apply would change nothing.
func upToDate(secret *corev1.Secret, db *v1alpha1.Database, endpoint Endpoint, data map[string][]byte) bool {
	for key, value := range data {
		if !bytes.Equal(secret.Data[key], value) {
			return false
		}
	}
	_, hasCA := secret.Data["ca.crt"]
	return hasCA == (len(endpoint.CA) > 0) &&
		secret.Labels[ManagedByLabel] == ManagedByValue && secret.Annotations[connectionAnnotation] == endpoint.hash() &&
		metav1.IsControlledBy(secret, db)
}
