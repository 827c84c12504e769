package dedicated

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
)

// restart says which pod is to be restarted now, and why; nil for none. left counts the pods that are not as the spec
// wishes. Pods that don't serve come first, then standbys, one at a time and each only while all others serve; the
// primary is the last. It is a pure function.
func restart(o *observed, wanted string) (pod *corev1.Pod, why string, left int) {
	var idle, standby, primary *corev1.Pod
	healthy, leaving := true, false
	reasons := map[string]string{}
	for i := range o.pods {
		p := &o.pods[i]
		leaving = leaving || p.DeletionTimestamp != nil
		serving := o.isServing(p)
		reason := outdated(p, wanted)
		healthy = healthy && serving
		if reason == "" || p.DeletionTimestamp != nil {
			continue
		}
		left++
		reasons[p.Name] = reason
		switch {
		case !serving && p.Name != o.leader:
			idle = p
		case p.Name == o.leader:
			primary = p
		default:
			standby = p
		}
	}
	alone := len(o.pods) == 1
	switch {
	case leaving:
		return nil, "", left // one at a time
	case idle != nil:
		pod = idle
	case standby != nil && healthy:
		pod = standby
	case primary != nil && standby == nil && (healthy || alone):
		pod = primary
	default:
		return nil, "", left
	}
	return pod, reasons[pod.Name], left
}

// outdated says why a pod isn't as the spec wishes; empty where it is.
func outdated(pod *corev1.Pod, wanted string) string {
	switch {
	case pod.Annotations[restartAnnotation] != wanted:
		return "its image, resources or placement changed"
	case memberOf(pod).PendingRestart:
		return "a parameter changed that takes effect at a start only"
	}
	return ""
}

// rollOut restarts at most one pod.
func (r *Reconciler) rollOut(ctx context.Context, db *databasev1.Database, o *observed, wanted string) *problem {
	switch {
	case o.set == nil:
		return nil
	case o.set.Status.ObservedGeneration != o.set.Generation || o.set.Spec.Template.Annotations[restartAnnotation] != wanted:
		// A pod that is deleted now could come back by the old template.
		return &problem{reason: databasev1.ReasonRollingOut, message: "The replicas are about to be restarted."}
	}
	pod, why, left := restart(o, wanted)
	if left == 0 {
		return nil
	}
	rolling := &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("%d of %d replicas are to be restarted.", left, len(o.pods))}
	if pod == nil {
		return rolling
	}
	if pod.Name == o.leader {
		r.checkpoint(ctx, db, o) // so that what the next start has to replay is short
	}
	if err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		rolling.err = fmt.Errorf("deleting the pod %q: %w", pod.Name, err)
		return rolling
	}
	r.Recorder.Eventf(db, pod, corev1.EventTypeNormal, databasev1.ReasonRestarting, "Restart", "The pod %s is restarted: %s.", pod.Name, why)
	return rolling
}

// correctRoles takes the primary's label off every pod that Patroni's store doesn't name: a primary that is frozen or
// cut off can't do it itself.
func (r *Reconciler) correctRoles(ctx context.Context, db *databasev1.Database, o *observed) error {
	for i := range o.pods {
		pod := &o.pods[i]
		if pod.Labels[roleLabel] != rolePrimary || o.leader == "" || pod.Name == o.leader {
			continue
		}
		store := &corev1.ConfigMap{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.Name + suffixLeader}, store); err != nil {
			return client.IgnoreNotFound(err)
		}
		if leader := store.Annotations["leader"]; leader == "" || leader == pod.Name {
			continue // the cache was behind
		}
		before := pod.DeepCopy()
		pod.Labels[roleLabel] = roleReplica
		err := r.Client.Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(r.FieldManager))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("taking the primary's label off the pod %q: %w", pod.Name, err)
		}
	}
	return nil
}
