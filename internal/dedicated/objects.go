package dedicated

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
)

// applyObjects brings every object but the login's Secret and the claims to the wish.
func (r *Reconciler) applyObjects(ctx context.Context, db *databasev1.Database, o *observed, image string, superuser *corev1.Secret, f *findings) error {
	config, err := store(db, accepted(db, o))
	if err != nil {
		return err
	}
	children := append(append(access(db), config...), append(services(db), r.network(db))...)
	if db.Spec.Replicas > 1 {
		children = append(children, disruption(db))
	}
	if err := r.applyChildren(ctx, db, children); err != nil {
		return err
	}
	if err := r.removeDisruption(ctx, db); err != nil {
		return err
	}
	replicas, p := r.scale(ctx, db, o, superuser)
	f.add(p)
	set, err := r.statefulSet(db, o.set, image, replicas)
	if err != nil {
		return err
	}
	return r.applyChild(ctx, db, child{&appsv1.StatefulSet{}, set})
}

func (r *Reconciler) applyChildren(ctx context.Context, db *databasev1.Database, children []child) error {
	for _, c := range children {
		if err := r.applyChild(ctx, db, c); err != nil {
			return err
		}
	}
	return nil
}

// removeDisruption deletes the budget of a Database that has one replica now: it would only stand in a drain's way.
func (r *Reconciler) removeDisruption(ctx context.Context, db *databasev1.Database) error {
	if db.Spec.Replicas > 1 {
		return nil
	}
	budget := &policyv1.PodDisruptionBudget{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(db), budget)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !metav1.IsControlledBy(budget, db) || budget.DeletionTimestamp != nil:
		return nil
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, budget, client.Preconditions{UID: &budget.UID}))
}

// scale says how many replicas the StatefulSet is to have now. It takes the highest ordinals away, so the primary is
// moved off them first.
func (r *Reconciler) scale(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret) (int32, *problem) {
	want := db.Spec.Replicas
	if o.set == nil || o.set.Spec.Replicas == nil || *o.set.Spec.Replicas <= want {
		return want, nil
	}
	have := *o.set.Spec.Replicas
	if o.leader != "" && ordinal(o.leader) < int(want) {
		return want, nil
	}
	moving := &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("The primary is moved before the replicas become %d.", want)}
	leader, candidate := o.primary(), o.candidate(int(want))
	if leader == nil || candidate == nil {
		moving.message = fmt.Sprintf("The replicas become %d once one of those that stay can be the primary.", want)
		return have, moving
	}
	moving.err = r.switchover(ctx, db, leader, candidate.Name, superuser)
	return have, moving
}

// candidate is a standby below the ordinal that streams; nil for none.
func (o *observed) candidate(below int) *corev1.Pod {
	for i := range o.pods {
		pod := &o.pods[i]
		if ordinal(pod.Name) < below && pod.Name != o.leader && o.isServing(pod) {
			return pod
		}
	}
	return nil
}
