package dedicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
)

// applyObjects brings every object but the login's Secret and the claims to the wish. What stands in the way of one
// keeps no other from its wish; only the StatefulSet waits until all it needs is there.
func (r *Reconciler) applyObjects(ctx context.Context, db *databasev1.Database, o *observed, image string, superuser *corev1.Secret, f *findings) error {
	config, err := r.store(db, o, o.parameters(db, time.Now()))
	if err != nil {
		return err
	}
	children := append(append(access(db), config...), append(services(db), r.network(db))...)
	if db.Spec.Replicas > 1 {
		children = append(children, disruption(db, o))
	}
	failed := errors.Join(r.applyChildren(ctx, db, children), r.removeDisruption(ctx, db))
	if failed != nil && o.set == nil {
		return failed
	}
	size, p := r.scale(ctx, db, o, superuser)
	f.add(p)
	set, err := r.statefulSet(db, o.set, image, size)
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, r.applyChild(ctx, db, child{&appsv1.StatefulSet{}, set}))
}

func (r *Reconciler) applyChildren(ctx context.Context, db *databasev1.Database, children []child) error {
	var failed []error
	for _, c := range children {
		failed = append(failed, r.applyChild(ctx, db, c))
	}
	return errors.Join(failed...)
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

// members are the ordinals that the StatefulSet is to have now.
type members struct{ first, count int32 }

// scale says which members there are to be now. Where volumes of an earlier Database are taken over, the last primary's
// comes up alone first: another one's data may be older, and an empty one would begin anew. Fewer replicas take the
// highest ordinals away, so the primary is moved off them first.
func (r *Reconciler) scale(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret) (members, *problem) {
	want := db.Spec.Replicas
	if o.set != nil && o.set.Spec.Replicas != nil && !o.initialized && o.leader == "" {
		return members{start(o.set), *o.set.Spec.Replicas}, nil // what has begun goes on until there is a primary
	}
	if o.set == nil && len(o.claims) > 0 && !o.initialized && o.leader == "" {
		last := o.lastPrimary()
		if last >= int(want) {
			return members{int32(last), 1}, &problem{reason: databasev1.ReasonRollingOut, stuck: true, message: fmt.Sprintf( //nolint:gosec // an ordinal
				"The latest data is on the volume %q: set spec.replicas to %d or more, until it has been copied.", claimName(db, last), last+1)}
		}
		return members{int32(last), 1}, nil //nolint:gosec // an ordinal
	}
	if o.set == nil || o.set.Spec.Replicas == nil || *o.set.Spec.Replicas <= want {
		return o.stay(want)
	}
	have := *o.set.Spec.Replicas
	leader := o.primary()
	if leader == nil { // whoever is to be the next one may be one of those that go
		return members{0, have}, &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("The replicas become %d once there is a primary.", want)}
	}
	if ordinal(leader.Name) < int(want) {
		// It may be gone, and only the cache not know yet: then those that are to go have the writes.
		if _, err := r.standbys(ctx, leader, superuser); err != nil {
			p := &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("The replicas become %d once the primary, %s, answers.", want, leader.Name)}
			return members{0, have}, p.because(err)
		}
		return o.stay(want)
	}
	return members{0, have}, r.movePrimary(ctx, db, o, superuser, int(want),
		&problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("The replicas become %d.", want)})
}

// stay keeps a primary that came up alone on a volume above the wished ones until there is a place for it, and says of
// members that still have to go.
func (o *observed) stay(want int32) (members, *problem) {
	if o.set != nil && start(o.set) >= want {
		return members{start(o.set), 1}, &problem{reason: databasev1.ReasonRollingOut, stuck: true, message: fmt.Sprintf(
			"The latest data is on the volume of the replica %d: set spec.replicas to %d or more, until it has been copied.",
			start(o.set), start(o.set)+1)}
	}
	if place := o.placeOfHeir(); place >= want && o.initialized {
		return members{0, place + 1}, &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf(
			"The replicas become %d once the primary has moved: the replica %d has the latest data.", want, place)}
	}
	if o.leaving(want) {
		return members{0, want}, &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("The replicas become %d.", want)}
	}
	return members{0, want}, nil
}

// placeOfHeir is the lowest ordinal of those that may lead now: the primary, else its heirs; -1 where nobody is known.
func (o *observed) placeOfHeir() int32 {
	heirs := o.heirs
	if o.leader != "" {
		heirs = []string{o.leader}
	}
	place := -1
	for _, name := range heirs {
		if n := ordinal(name); place < 0 || n < place {
			place = n
		}
	}
	return int32(place)
}

// leaving reports pods that the wished number of replicas leaves no place for.
func (o *observed) leaving(want int32) bool {
	return slices.ContainsFunc(o.pods, func(p corev1.Pod) bool { return ordinal(p.Name) >= int(want) })
}

// start is the lowest ordinal of the set's pods.
func start(set *appsv1.StatefulSet) int32 {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return set.Spec.Ordinals.Start
}

// lastPrimary is the ordinal of the volume that a primary wrote last.
func (o *observed) lastPrimary() int {
	if latest := o.latest(); latest != nil {
		return ordinal(latest.Name)
	}
	return 0
}

// latest is the claim that was noted last as the primary's; nil for none.
func (o *observed) latest() *corev1.PersistentVolumeClaim {
	var latest *corev1.PersistentVolumeClaim
	for i := range o.claims {
		claim := &o.claims[i]
		if at := notedAt(claim); at != "" && (latest == nil || at > notedAt(latest)) {
			latest = claim
		}
	}
	return latest
}

// notedAt is when a claim was noted as the primary's; empty where it never was. What a person wrote there, as after a
// restore, is older than any time.
func notedAt(claim *corev1.PersistentVolumeClaim) string {
	at := claim.Annotations[primaryAnnotation]
	if _, err := time.Parse(primaryTime, at); err != nil && at != "" {
		return "0"
	}
	return at
}

// candidate is a standby below the ordinal that could be the primary; nil for none. With synchronous it is one that has
// every acknowledged write.
func (o *observed) candidate(below int, synchronous bool) *corev1.Pod {
	for i := range o.pods {
		pod := &o.pods[i]
		if ordinal(pod.Name) < below && pod.Name != o.leader && o.isServing(pod) && (!synchronous || slices.Contains(o.sync, pod.Name)) {
			return pod
		}
	}
	return nil
}

// markPrimary notes on its claim since when a pod is the primary, for a Database that takes the volumes over. Earlier notes
// stay: there is no moment without one.
func (r *Reconciler) markPrimary(ctx context.Context, o *observed, now time.Time) error {
	primary := o.primary()
	if primary == nil {
		return nil
	}
	return r.markClaim(ctx, o, primary.Name, now)
}

// markClaim notes on the claim of the pod of this name that it is the primary.
func (r *Reconciler) markClaim(ctx context.Context, o *observed, primary string, now time.Time) error {
	before := o.claimOf(primary)
	if before == nil || before == o.latest() || before.DeletionTimestamp != nil {
		return nil
	}
	claim := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, primaryAnnotation, now.UTC().Format(primaryTime))
	err := r.Client.Patch(ctx, claim, client.MergeFrom(before), client.FieldOwner(r.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("noting the primary on the claim %q: %w", claim.Name, err)
	}
	return nil
}

const (
	// primaryAnnotation has, on a claim, since when its pod was the primary; the one with the latest has the latest data.
	primaryAnnotation = "database.example.com/primary"
	// primaryTime has as many digits always, so that texts compare as times do.
	primaryTime = "2006-01-02T15:04:05.000000Z"
)
