package shared

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/ownership"
	"github.com/example/databases/internal/postgres"
)

// maxSecretRaces is how often a reconcile starts over because the Secret was deleted or replaced under its hands.
const maxSecretRaces = 5

// provision brings the role, the database and the Secret to the spec.
func (r *Reconciler) provision(ctx context.Context, db *v1alpha1.Database) *failure {
	t, failed := r.target(ctx, db)
	if failed != nil {
		return failed
	}
	endpoint, err := t.endpoint()
	if err != nil {
		return fail(v1alpha1.ReasonSecretApplyFailed, err, "What the Secret is to hold could not be read: check POSTGRES_CA_FILE.")
	}
	if failed := r.refuseLeaving(ctx, db, t); failed != nil {
		return failed
	}
	if err := postgres.RefuseName(db.Spec.Name); err != nil { // a stored name may be older than the rule
		return serverFailure(err)
	}
	due := r.logins.Due(client.ObjectKeyFromObject(db), r.LoginInterval)
	if !due && r.settled(ctx, db, endpoint) {
		err := r.provisionServer(ctx, db, t.admin, r.wish(db), true)
		if postgres.KindOf(err) != postgres.KindPasswordNeeded {
			return t.failure(err)
		}
	}
	for range maxSecretRaces {
		failed := r.provisionWithSecret(ctx, db, t, endpoint, due)
		if failed == nil || !errors.Is(failed.err, credentials.ErrRaced) {
			return failed
		}
	}
	return fail(v1alpha1.ReasonSecretApplyFailed, credentials.ErrRaced, "The Secret is deleted or replaced faster than it can be applied.")
}

// settled reports whether the cache shows the Secret whose password was last set, with all that this controller put
// there: then it needn't be read.
func (r *Reconciler) settled(ctx context.Context, db *v1alpha1.Database, endpoint credentials.Endpoint) bool {
	if !isReady(db) || db.Status.SecretVersion == "" {
		return false
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.SecretName()}, secret); err != nil {
		return false
	}
	return r.secrets(ctx).Settled(secret, owner(db), endpoint, db.Status.SecretVersion)
}

// isReady reports whether the spec as it is now was found provisioned the last time.
func isReady(db *v1alpha1.Database) bool {
	ready := apimeta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == db.Generation
}

// provisionWithSecret reads the Secret, provisions with its password or a new one, and applies the Secret.
func (r *Reconciler) provisionWithSecret(ctx context.Context, db *v1alpha1.Database, t target, endpoint credentials.Endpoint, checkLogin bool) *failure {
	secret, err := r.secrets(ctx).Read(ctx, owner(db), db.SecretName())
	switch {
	case errors.Is(err, credentials.ErrConflict):
		// Nobody is to be told of another's Secret.
		db.Status.SecretName, db.Status.SecretVersion, db.Status.Binding = "", "", v1alpha1.SecretBinding{}
		return fail(v1alpha1.ReasonSecretConflict, fmt.Errorf("%w: %q", err, db.SecretName()), fmt.Sprintf(
			"A Secret %q exists that isn't this Database's. Delete or rename it, or make the Database under another metadata.name.", db.SecretName()))
	case err != nil:
		return fail(v1alpha1.ReasonSecretApplyFailed, err, "The Secret could not be read.")
	}
	wish := r.wish(db)
	var isNew bool
	wish.Password, isNew = credentials.Password(secret)
	wish.SetPassword = isNew || secret == nil || credentials.Version(secret) != db.Status.SecretVersion
	drift := isReady(db) && !wish.SetPassword
	if checkLogin && !wish.SetPassword {
		wish.SetPassword = passwordDrifted(ctx, t.admin, wish)
	}
	if err := r.provisionServer(ctx, db, t.admin, wish, drift); err != nil {
		return t.failure(err)
	}
	version, err := r.secrets(ctx).Apply(ctx, owner(db), db.SecretName(), secret, endpoint,
		credentials.Login{Username: wish.Name, Password: wish.Password, Database: wish.Name})
	switch {
	case errors.Is(err, credentials.ErrRaced):
		return fail(v1alpha1.ReasonSecretApplyFailed, err, "")
	case err != nil:
		return fail(v1alpha1.ReasonSecretApplyFailed, err, "The Secret could not be applied.")
	}
	if isNew && db.Status.SecretVersion != "" {
		r.Telemetry.Rotated(ctx)
	}
	db.Status.SecretName = db.SecretName()
	db.Status.Binding = v1alpha1.SecretBinding{Name: db.SecretName()}
	db.Status.SecretVersion = version
	return nil
}

func (r *Reconciler) secrets(ctx context.Context) credentials.Store {
	return credentials.Store{Client: r.Client, Live: r.Live, FieldManager: r.FieldManager,
		Scenario: fault.Carried(ctx), Intercept: fault.Secrets}
}

func owner(db *v1alpha1.Database) ownership.Owner {
	return ownership.Owner{Object: db, Kind: v1alpha1.GroupVersion.WithKind(v1alpha1.DatabaseKind)}
}

// passwordDrifted reports that the server refuses the Secret's password. A check that fails otherwise decides
// nothing.
func passwordDrifted(ctx context.Context, admin postgres.Admin, wish postgres.Wish) bool {
	ok, err := admin.CheckLogin(ctx, wish.Name, wish.Name, wish.Password)
	return err == nil && !ok
}

// provisionServer calls Provision, taking over the claim of a resource that is gone. drift says that what it changes is
// what somebody else changed in PostgreSQL.
func (r *Reconciler) provisionServer(ctx context.Context, db *v1alpha1.Database, admin postgres.Admin, wish postgres.Wish, drift bool) error {
	outcome, err := r.Telemetry.Provision(ctx, admin, wish)
	var e *postgres.Error
	if errors.As(err, &e) && e.Kind == postgres.KindNameConflict && e.Claim != nil {
		gone, goneErr := r.gone(ctx, db, *e.Claim)
		if goneErr != nil {
			return fail(v1alpha1.ReasonNameConflict, fmt.Errorf("reading the Database that claims the name: %w", goneErr),
				fmt.Sprintf("The name %q is taken, and whether by a Database that is still there could not be read.", db.Spec.Name))
		}
		if gone {
			wish.TakeOver = e.Claim
			outcome, err = r.Telemetry.Provision(ctx, admin, wish)
		}
	}
	if len(outcome.Changes) > 0 {
		log.FromContext(ctx).Info("changed", "changes", outcome.Changes)
	}
	if drift {
		r.Telemetry.Repaired(ctx, outcome.Changes)
	}
	if outcome.DatabaseCreated && db.Status.SecretVersion != "" {
		r.Recorder.Eventf(db, nil, corev1.EventTypeWarning, v1alpha1.ReasonDatabaseRecreated, "Reconcile",
			"The database %q was missing in PostgreSQL and was created again, empty.", db.Spec.Name)
	}
	return err
}

// gone reports whether the resource that holds a claim no longer exists. Only claims of this cluster, kind and
// namespace can be judged, and only those that a resource once held: a line without a uid is an administrator's
// promise to a resource that may come.
func (r *Reconciler) gone(ctx context.Context, db *v1alpha1.Database, claim postgres.Claim) (bool, error) {
	if claim.Cluster != r.Cluster || claim.Group != v1alpha1.GroupVersion.Group || claim.Namespace != db.Namespace || claim.UID == "" {
		return false, nil
	}
	holder := &metav1.PartialObjectMetadata{}
	holder.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.DatabaseKind))
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}, holder)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && string(holder.UID) != claim.UID, err
}

func (r *Reconciler) wish(db *v1alpha1.Database) postgres.Wish {
	wish := postgres.Wish{Name: db.Spec.Name, Claim: r.claim(db), ConnectionLimit: postgres.NoConnectionLimit}
	if limit := db.Spec.ConnectionLimit; limit != 0 {
		wish.ConnectionLimit = int(limit)
	}
	return wish
}

func (r *Reconciler) claim(db *v1alpha1.Database) postgres.Claim {
	return postgres.Claim{
		Cluster: r.Cluster, Group: v1alpha1.GroupVersion.Group, Namespace: db.Namespace, Name: db.Name, UID: string(db.UID),
	}
}

// reasons are the conditions' reasons for the server's refusals; every other failure is PostgresUnavailable.
var reasons = map[postgres.Kind]string{
	postgres.KindNameReserved:          v1alpha1.ReasonNameReserved,
	postgres.KindAlreadyExists:         v1alpha1.ReasonAlreadyExists,
	postgres.KindNameConflict:          v1alpha1.ReasonNameConflict,
	postgres.KindInsufficientPrivilege: v1alpha1.ReasonInsufficientPrivilege,
	postgres.KindPasswordRejected:      v1alpha1.ReasonPasswordRejected,
	postgres.KindDropBlocked:           v1alpha1.ReasonDropBlocked,
	postgres.KindRoleHasDependents:     v1alpha1.ReasonRoleHasDependents,
}

// serverFailure says what an error of package postgres means for the Database; nil where there is none.
func serverFailure(err error) *failure {
	if err == nil {
		return nil
	}
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	reason, ok := reasons[postgres.KindOf(err)]
	if !ok {
		reason = v1alpha1.ReasonPostgresUnavailable
	}
	message := "The role and the database could not be provisioned in PostgreSQL."
	var e *postgres.Error
	if errors.As(err, &e) {
		message = e.Message
	}
	failed := fail(reason, err, message)
	failed.park = postgres.KindOf(err) == postgres.KindUnavailable
	return failed
}

func fail(reason string, err error, message string) *failure {
	return &failure{reason: reason, message: message, err: err}
}
