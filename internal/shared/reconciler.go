package shared

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/reconciling"
	"github.com/example/databases/internal/status"
	"github.com/example/databases/internal/telemetry"
)

const (
	// reconcileTimeout ends a reconcile that hangs. CREATE and DROP DATABASE may wait for a checkpoint.
	reconcileTimeout = 2 * time.Minute
)

// Reconciler brings each Database to its spec.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Admin is the PostgreSQL server of Databases that name none; nil where the program was started without one.
	Admin postgres.Admin
	// Servers finds the dedicated servers that Databases name instead.
	Servers Servers
	// Endpoint is what a Secret tells its client besides the password, as of now.
	Endpoint func() (credentials.Endpoint, error)
	// Cluster identifies this cluster in claims: the uid of the Namespace kube-system.
	Cluster string
	// FieldManager is the field manager of every write.
	FieldManager string
	// Resync is the mean time between two looks at a Database that nothing happens to.
	Resync time.Duration
	// LoginInterval is the mean time between two checks of a role's login.
	LoginInterval time.Duration
	// Recorder emits events.
	Recorder events.EventRecorder
	// Waiting has the Databases that wait for the server to come back.
	Waiting *Waiting
	// Scenarios has the failure scenarios that Databases carry; nil where none is trusted.
	Scenarios *fault.Scenarios
	// Telemetry is told what happens; nil for none.
	Telemetry *telemetry.Controller

	logins credentials.LoginSchedule
}

// failure is why a Database isn't ready: the condition's reason and message, and the error for the log.
type failure struct {
	reason, message string
	err             error
	// park says that the server's own breaker will wake the Database.
	park bool
}

func (f *failure) Error() string { return f.message }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := reconciling.Detach(ctx, reconcileTimeout)
	defer cancel()
	epoch := r.Waiting.epoch()

	db := &v1alpha1.Database{}
	if err := r.Client.Get(ctx, req.NamespacedName, db); err != nil {
		if apierrors.IsNotFound(err) {
			r.Waiting.remove(req)
			r.logins.Remove(req.NamespacedName)
			r.Scenarios.Remove(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.ensureFinalizer(ctx, db); err != nil {
		return reconciling.RetryConflict(err)
	}
	before := db.DeepCopy()
	failed, err := r.step(ctx, db)
	if err != nil {
		return reconciling.RetryConflict(err)
	}
	if before.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(db, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil // let go: it is gone, or somebody else's
	}
	db.Status.ObservedGeneration = db.Generation
	if err := status.Write(ctx, r.Client, before, db, before.Status, db.Status); err != nil {
		return reconciling.RetryConflict(err)
	}
	r.report(ctx, before, db)
	switch {
	case failed == nil:
		r.Waiting.remove(req)
		return reconciling.Resync(r.Resync), nil
	case failed.park && r.Waiting.park(req, epoch):
		return reconciling.Resync(r.Resync), nil
	case failed.park:
		return reconcile.Result{RequeueAfter: reconciling.ConflictDelay}, nil // the server came back meanwhile
	}
	return reconcile.Result{}, failed.err
}

// step does what the Database asks for now and puts the outcome into its conditions. The error is one that says
// nothing about the Database: the API server's, on a write of the Database itself.
func (r *Reconciler) step(ctx context.Context, db *v1alpha1.Database) (*failure, error) {
	if db.Annotations[v1alpha1.PausedAnnotation] == "true" {
		status.Set(&db.Status.Conditions, db.Generation, v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused,
			"The annotation "+v1alpha1.PausedAnnotation+" keeps the controller away; remove it to go on.")
		return nil, nil
	}
	apimeta.RemoveStatusCondition(&db.Status.Conditions, v1alpha1.ConditionPaused)
	ctx = r.rehearse(ctx, db)
	var failed *failure
	var err error
	if db.DeletionTimestamp != nil {
		failed, err = r.finalize(ctx, db)
	} else if failed = r.provision(ctx, db); failed == nil {
		status.Set(&db.Status.Conditions, db.Generation, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProvisioned,
			"The role, the database and the Secret are provisioned.")
	}
	if failed != nil {
		status.Set(&db.Status.Conditions, db.Generation, v1alpha1.ConditionReady, metav1.ConditionFalse, failed.reason, failed.message)
	}
	return failed, err
}

// rehearse lets the failure scenario apply that the Database carries.
func (r *Reconciler) rehearse(ctx context.Context, db *v1alpha1.Database) context.Context {
	ctx, err := r.Scenarios.Enter(ctx, db)
	if err != nil {
		r.Recorder.Eventf(db, nil, corev1.EventTypeWarning, v1alpha1.ReasonFailureScenarioInvalid, "Reconcile",
			"The annotation %s is ignored: %v.", v1alpha1.FailureScenarioAnnotation, err)
	}
	return ctx
}

// ensureFinalizer writes the finalizer down before anything is done for the Database.
func (r *Reconciler) ensureFinalizer(ctx context.Context, db *v1alpha1.Database) error {
	if db.DeletionTimestamp != nil || db.Annotations[v1alpha1.PausedAnnotation] == "true" ||
		controllerutil.ContainsFinalizer(db, v1alpha1.Finalizer) || !finalizerFirst && db.Status.SecretName == "" {
		return nil
	}
	return r.patchFinalizers(ctx, db, controllerutil.AddFinalizer)
}

func (r *Reconciler) patchFinalizers(ctx context.Context, db *v1alpha1.Database, change func(client.Object, string) bool) error {
	return reconciling.PatchFinalizers(ctx, r.Client, db, v1alpha1.Finalizer, change, client.FieldOwner(r.FieldManager))
}

// report emits an event where Ready's status or reason changed, and none for the first success.
func (r *Reconciler) report(ctx context.Context, before, after *v1alpha1.Database) {
	r.Telemetry.Concluded(ctx, after.UID, before.Status.Conditions, after.Status.Conditions)
	if !status.Changed(before.Status.Conditions, after.Status.Conditions, v1alpha1.ConditionReady) {
		return
	}
	ready := apimeta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady)
	old := apimeta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	first := old == nil
	if ready != nil && ready.Status == metav1.ConditionTrue && before.Status.SecretVersion == "" && (first || old.Reason != v1alpha1.ReasonSecretConflict) {
		r.Telemetry.FirstReady(ctx, after.CreationTimestamp.Time)
	}
	if ready == nil || first && ready.Status == metav1.ConditionTrue {
		return
	}
	kind := corev1.EventTypeWarning
	if ready.Status == metav1.ConditionTrue {
		kind = corev1.EventTypeNormal
	}
	r.Recorder.Eventf(after, nil, kind, ready.Reason, "Reconcile", "%s", ready.Message)
}
