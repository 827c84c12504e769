package dedicated

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/reconciling"
)

// maxNamedUsers is how many shared Databases a message names.
const maxNamedUsers = 5

// users names the shared Databases that keep the server from being deleted: those that nobody deletes, and those that
// are to be dropped, as long as the server can be told to.
func (r *Reconciler) users(ctx context.Context, db *databasev1.Database) ([]string, error) {
	var all v1alpha1.DatabaseList
	if err := r.Client.List(ctx, &all, client.InNamespace(db.Namespace)); err != nil {
		return nil, err
	}
	o, err := r.observe(ctx, db)
	if err != nil {
		return nil, err
	}
	return usersOf(all.Items, db.Name, r.answers(db, o, time.Now())), nil
}

// leaderlessLimit is longer than a failover takes: a server without a primary for so long has none for good.
const leaderlessLimit = 2 * time.Minute

// answers reports that the server can be told to drop databases, or soon will.
func (r *Reconciler) answers(db *databasev1.Database, o *observed, now time.Time) bool {
	var without []types.UID
	if o.primary() == nil {
		without = append(without, db.UID)
	}
	since, leaderless := r.leaderless.update(db.UID, without, now)[db.UID]
	ready := slices.ContainsFunc(o.pods, func(p corev1.Pod) bool { return isPodReady(&p) })
	return !leaderless || ready && now.Sub(since) < leaderlessLimit
}

func usersOf(all []v1alpha1.Database, server string, answers bool) []string {
	var names []string
	for i := range all {
		user := &all[i]
		switch {
		case user.Spec.ServerRef.Name != server:
		case user.DeletionTimestamp == nil, user.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && answers:
			names = append(names, user.Name)
		}
	}
	slices.Sort(names)
	return names
}

// inUseMessage says who keeps the server, and what to do.
func inUseMessage(users []string) string {
	named := strings.Join(users[:min(len(users), maxNamedUsers)], ", ")
	if more := len(users) - maxNamedUsers; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("The server runs on, because shared Databases live on it: %s. Delete them (kubectl delete pgdb NAME); "+
		"where one is being deleted and can't be dropped, set its spec.deletionPolicy to Retain.", named)
}

// awaitUsers says who keeps the server from being deleted. Nothing of the spec is carried out any more, but its pods, and
// Patroni in them, go on, what may be evicted is kept right, and which volume has the latest data is noted.
func (r *Reconciler) awaitUsers(ctx context.Context, stored *unstructured.Unstructured, db *databasev1.Database, users []string) (reconcile.Result, error) {
	before := db.DeepCopy()
	o, err := r.observe(ctx, db)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.markPrimary(ctx, o, time.Now()); err != nil { // for whoever takes the volumes over
		return reconciling.RetryConflict(err)
	}
	if db.Spec.Replicas > 1 { // what may be evicted changes with the standbys
		if err := r.applyChild(ctx, db, disruption(db, o)); err != nil {
			return reconciling.RetryConflict(err)
		}
	}
	conclude(db, o, &findings{
		ready:  &problem{reason: databasev1.ReasonInUse, message: inUseMessage(users)},
		usable: o.primary() != nil && db.Status.SecretVersion != "",
	})
	db.Status.Phase = phaseOf(o, &findings{ready: diagnose(db, o, time.Now())}) // of the server, which runs
	keepUpToDate(before, db)
	db.Status.ObservedGeneration = db.Generation
	if err := r.writeStatus(ctx, stored, before, db); err != nil {
		return reconciling.RetryConflict(err)
	}
	r.report(ctx, before, db)
	if o.primary() == nil {
		return reconcile.Result{RequeueAfter: waitingDelay}, nil
	}
	return reconciling.Resync(r.Resync), nil // the users' end wakes it, and what happens to the pods
}

// keepUpToDate leaves the condition as it was: nobody has compared anything with the spec.
func keepUpToDate(before, after *databasev1.Database) {
	kept := apimeta.FindStatusCondition(before.Status.Conditions, databasev1.ConditionUpToDate)
	if kept == nil {
		apimeta.RemoveStatusCondition(&after.Status.Conditions, databasev1.ConditionUpToDate)
		return
	}
	*apimeta.FindStatusCondition(after.Status.Conditions, databasev1.ConditionUpToDate) = *kept
}

// byUse finds the server that a shared Database lives on, where it waits for that Database.
func (r *Reconciler) byUse(ctx context.Context, o client.Object) []reconcile.Request {
	user, ok := o.(*v1alpha1.Database)
	if !ok || user.Spec.ServerRef.Name == "" {
		return nil
	}
	key := types.NamespacedName{Namespace: user.Namespace, Name: user.Spec.ServerRef.Name}
	server := newUnstructured()
	if err := r.Client.Get(ctx, key, server, client.DisableReadYourWritesConsistency); err != nil || server.GetDeletionTimestamp() == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// useChanged passes what may end a shared Database's use of its server.
func useChanged(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.Database)
	after, ok2 := e.ObjectNew.(*v1alpha1.Database)
	return !ok1 || !ok2 || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		before.Spec.DeletionPolicy != after.Spec.DeletionPolicy
}

// unseen passes nothing: a new shared Database lets no server go.
func unseen(event.CreateEvent) bool { return false }
