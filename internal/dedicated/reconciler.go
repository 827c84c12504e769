package dedicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/reconciling"
	"github.com/example/databases/internal/status"
	"github.com/example/databases/internal/telemetry"
)

const (
	// reconcileTimeout ends a reconcile that hangs. The longest step is a checkpoint and a switchover, and what it did is to
	// be told after it.
	reconcileTimeout = 90 * time.Second
	// waitingDelay is the time between two looks while something is waited for that should wake the Database itself.
	waitingDelay = 10 * time.Second
)

// Reconciler brings each Database to its spec.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Dial reaches the pods.
	Dial Dialer
	// SQL is put around each round trip to PostgreSQL; nil for nothing.
	SQL postgres.Interceptor
	// Cluster identifies this cluster in claims: the uid of the Namespace kube-system.
	Cluster string
	// Namespace is the controller's own, which may reach Patroni's REST interface; empty outside a cluster.
	Namespace string
	// PatroniImage is the image that brings Patroni into the pods.
	PatroniImage string
	// FieldManager is the field manager of every write.
	FieldManager string
	// StuckAfter is how long a standby may go without streaming, where it could, until it is cloned anew.
	StuckAfter time.Duration
	// Resync is the mean time between two looks at a Database that nothing happens to.
	Resync time.Duration
	// LoginInterval is the mean time between two checks of a role's login.
	LoginInterval time.Duration
	// Recorder emits events.
	Recorder events.EventRecorder
	// Scenarios has the failure scenarios that Databases carry; nil where none is trusted.
	Scenarios *fault.Scenarios
	// Telemetry is told what happens; nil for none.
	Telemetry *telemetry.Controller

	logins   credentials.LoginSchedule
	restarts restarts
	// idle are standbys that don't stream, waiting members that wait for another one's data, alone primaries without a
	// synchronous standby, leaderless Databases that are being deleted and have no primary.
	idle, waiting, alone, leaderless idleSince
	// configured is when parameters were written that not all members have looked at yet.
	configured looks
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := reconciling.Detach(ctx, reconcileTimeout)
	defer cancel()
	stored := newUnstructured()
	if err := r.Client.Get(ctx, req.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			r.logins.Remove(req.NamespacedName)
			r.Scenarios.Remove(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	db := &databasev1.Database{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, db); err != nil {
		return reconcile.Result{}, r.unreadable(ctx, stored, err)
	}
	if db.Annotations[databasev1.PausedAnnotation] != "true" {
		if db.DeletionTimestamp != nil {
			return r.finalize(ctx, stored, db)
		}
		if err := r.patchFinalizers(ctx, stored, controllerutil.AddFinalizer); err != nil { // before anything is made
			return reconciling.RetryConflict(err)
		}
	}
	before := db.DeepCopy()
	found, err := r.step(ctx, db)
	if err != nil {
		return reconciling.RetryConflict(err)
	}
	if found.stale() {
		return reconcile.Result{RequeueAfter: reconciling.ConflictDelay}, nil // it says nothing of the Database
	}
	if db.Annotations[databasev1.PausedAnnotation] != "true" { // otherwise nobody has looked at it
		db.Status.ObservedGeneration = db.Generation
	}
	if err := r.writeStatus(ctx, stored, before, db); err != nil {
		return reconciling.RetryConflict(err)
	}
	r.report(ctx, before, db)
	return r.next(found)
}

// findings is what a look at a Database found.
type findings struct {
	// ready is why it isn't ready; nil where it is. usable says that a client can log in.
	ready  *problem
	usable bool
	// behind is why the spec isn't carried out.
	behind []*problem
	// soon says that the next look is due within a second.
	soon bool
}

// stale reports that a write met a newer object than the cache has.
func (f *findings) stale() bool {
	return f.ready != nil && f.ready.stale || slices.ContainsFunc(f.behind, func(p *problem) bool { return p.stale })
}

// next says when to look again: an error backs off, something waited for wakes the Database itself.
func (r *Reconciler) next(f *findings) (reconcile.Result, error) {
	waiting := false
	for _, p := range append([]*problem{f.ready}, f.behind...) {
		switch {
		case p == nil:
		case p.err != nil:
			return reconcile.Result{}, fmt.Errorf("%s: %w", p.reason, p.err)
		default:
			waiting = waiting || !p.stuck
		}
	}
	switch {
	case f.soon:
		return reconcile.Result{RequeueAfter: hastenEvery}, nil
	case waiting:
		return reconcile.Result{RequeueAfter: waitingDelay}, nil
	}
	return reconciling.Resync(r.Resync), nil
}

// step does what the Database asks for now and puts the outcome into its status. The error is one that says nothing
// about the Database: the API server's, on a read, or on a write of the Database itself.
func (r *Reconciler) step(ctx context.Context, db *databasev1.Database) (*findings, error) {
	if db.Annotations[databasev1.PausedAnnotation] == "true" {
		status.Set(&db.Status.Conditions, db.Generation, databasev1.ConditionPaused, metav1.ConditionTrue, databasev1.ReasonPaused,
			"The annotation "+databasev1.PausedAnnotation+" keeps the controller away; remove it to go on.")
		return &findings{}, nil
	}
	apimeta.RemoveStatusCondition(&db.Status.Conditions, databasev1.ConditionPaused)
	ctx = r.rehearse(ctx, db)
	size, err := resource.ParseQuantity(db.Spec.Storage.Size)
	if err != nil || size.Sign() <= 0 || db.Spec.Replicas < 1 || db.Spec.Replicas > maxReplicas {
		f := &findings{ready: &problem{reason: databasev1.ReasonInvalidSpec, stuck: true, message: fmt.Sprintf(
			"spec.storage.size %q must be a whole number of Mi or Gi, as 10Gi, and spec.replicas, %d, from 1 to %d.",
			db.Spec.Storage.Size, db.Spec.Replicas, maxReplicas)}}
		conclude(db, &observed{}, f)
		return f, nil
	}
	o, err := r.observe(ctx, db)
	if err != nil {
		return nil, err
	}
	f := r.bring(ctx, db, o, size)
	conclude(db, o, f)
	return f, nil
}

// rehearse lets the failure scenario apply that the Database carries.
func (r *Reconciler) rehearse(ctx context.Context, db *databasev1.Database) context.Context {
	ctx, err := r.Scenarios.Enter(ctx, db)
	if err != nil {
		r.Recorder.Eventf(db, nil, corev1.EventTypeWarning, databasev1.ReasonFailureScenarioInvalid, "Reconcile",
			"The annotation %s is ignored: %v.", v1alpha1.FailureScenarioAnnotation, err)
	}
	return ctx
}

// bring makes the Database's objects as they should be, in the order in which they need each other. What fails of one
// keeps no other from its turn.
func (r *Reconciler) bring(ctx context.Context, db *databasev1.Database, o *observed, size resource.Quantity) *findings {
	f := &findings{}
	f.add(r.growVolumes(ctx, db, size, o.claims))
	f.addError(r.unblock(ctx, db, o, time.Now()))
	if o.left != "" { // what it says of who leads isn't so any more
		f.ready = &problem{reason: databasev1.ReasonPodsStarting, message: fmt.Sprintf(
			"The ConfigMap %q of an earlier Database of this name is to be deleted first, by Kubernetes.", o.left)}
		return f
	}
	if o.set == nil {
		if err := r.adopt(ctx, db); err != nil {
			f.ready = childProblem(err)
			return f
		}
	}
	superuser, err := r.superuser(ctx, db)
	if err != nil {
		f.ready = childProblem(err)
		return f
	}
	image, p := r.chooseImage(ctx, db, o)
	f.add(p)
	db.Status.Image = image // accepted, whatever fails of the objects
	failed := r.applyObjects(ctx, db, o, image, superuser, f)
	f.addError(failed)
	f.ready = r.serve(ctx, db, o, superuser, f)
	if p := childProblem(failed); p != nil && f.ready != nil && o.primary() == nil {
		f.ready = p // why nothing runs
	}
	wanted, err := restartHash(db, image)
	if err != nil {
		f.addError(err)
		return f
	}
	f.addError(r.markPrimary(ctx, o, time.Now()))
	f.soon = r.hasten(ctx, db, o, superuser, time.Now())
	if f.stale() {
		return f // nothing is restarted in a look that a conflict has spoiled: its status isn't written
	}
	f.add(r.change(ctx, db, o, superuser, wanted))
	f.add(r.recloneStuck(ctx, db, o, superuser, time.Now()))
	return f
}

// adopt looks for claims of the StatefulSet's names before there is one.
func (r *Reconciler) adopt(ctx context.Context, db *databasev1.Database) error {
	adopted, err := r.checkClaims(ctx, db)
	if err != nil {
		return err
	}
	if adopted && apimeta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionReady) == nil {
		r.Recorder.Eventf(db, nil, corev1.EventTypeNormal, databasev1.ReasonVolumesAdopted, "Reconcile",
			"Volumes of an earlier Database of this name are taken over with their data.")
	}
	return nil
}

// serve brings the database, the role and the Secret to the spec by way of the primary, and says why the Database
// isn't ready.
func (r *Reconciler) serve(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret, f *findings) *problem {
	unhealthy := diagnose(db, o, time.Now())
	primary := o.primary()
	if primary == nil {
		return unhealthy
	}
	admin, err := r.connect(primary, superuser)
	if err != nil {
		return serverProblem(err)
	}
	defer admin.Close()
	if p := r.provision(ctx, db, fault.Admin(admin)); p != nil {
		f.add(r.awaitParameters(ctx, db, o, superuser))
		return p
	}
	f.usable = true
	f.add(r.setParameters(ctx, db, o, superuser, admin))
	return unhealthy
}

// change takes one step towards the members that the spec wishes: by deleting a pod, or, where no pod differs, by
// restarting PostgreSQL in one.
func (r *Reconciler) change(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret, wanted string) *problem {
	if p := r.rollOut(ctx, db, o, superuser, wanted); p != nil {
		return p
	}
	return r.restartInPlace(ctx, db, o, superuser)
}

func (f *findings) add(p *problem) {
	if p != nil {
		f.behind = append(f.behind, p)
	}
}

func (f *findings) addError(err error) { f.add(childProblem(err)) }

// childProblem is what a failed write or read of an object means for the Database.
func childProblem(err error) *problem {
	var conflict *conflictError
	var leaving *leavingError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		return &problem{reason: databasev1.ReasonChildConflict, message: conflictMessage(conflict), stuck: true, err: err}
	case errors.As(err, &leaving):
		return &problem{reason: databasev1.ReasonPodsStarting, message: fmt.Sprintf(
			"The %s %q of an earlier Database of this name is still being deleted.", leaving.kind, leaving.name)}
	case apierrors.IsConflict(err): // somebody was faster, as Patroni's heartbeat: look again
		return &problem{reason: databasev1.ReasonApplyFailed, message: "An object changed while it was applied.", stale: true}
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		return &problem{reason: databasev1.ReasonApplyFailed, message: apiMessage(err), stuck: true, err: err}
	}
	return &problem{reason: databasev1.ReasonApplyFailed, message: "An object that the Database needs could not be applied.", err: err}
}

// apiMessage is the API server's own word, which says what it doesn't accept.
func apiMessage(err error) string {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		return "The API server refuses an object that the Database needs: " + known.Status().Message
	}
	return "The API server refuses an object that the Database needs."
}

// patchFinalizers writes an untyped object, as one that can't be read as a Database has them too.
func (r *Reconciler) patchFinalizers(ctx context.Context, db client.Object, change func(client.Object, string) bool) error {
	return reconciling.PatchFinalizers(ctx, r.Client, db, databasev1.Finalizer, change,
		client.FieldOwner(r.FieldManager))
}

// newUnstructured is the form in which Databases are watched: one that can't be read as a Database would keep a typed
// watch from seeing all the others.
func newUnstructured() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(databasev1.GroupVersion.WithKind(databasev1.DatabaseKind))
	return u
}
