package dedicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// restart says which pod is to be restarted now, and why; nil for none. left counts the pods that are not as the spec
// wishes. Pods that don't serve come first, then standbys, one at a time and each only while all replicas are there and
// serve; the primary is the last. It is a pure function.
func restart(o *observed, wanted, revision string, replicas int) (pod *corev1.Pod, why string, left int) {
	var idle, standby, primary *corev1.Pod
	healthy := len(o.pods) == replicas
	reasons := map[string]string{}
	for i := range o.pods {
		p := &o.pods[i]
		if p.DeletionTimestamp != nil {
			healthy = false
			continue
		}
		serving := o.isServing(p)
		healthy = healthy && serving
		reason := outdated(p, wanted, revision)
		if reason == "" {
			continue
		}
		left++
		reasons[p.Name] = reason
		switch {
		case p.Name == o.leader:
			primary = p
		case !serving:
			idle = p
		default:
			standby = p
		}
	}
	switch {
	case slices.ContainsFunc(o.pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }):
		return nil, "", left // one at a time
	case idle != nil && o.bootstrapping && isRunning(idle):
		return nil, "", left // what it makes would be left half made
	case idle != nil:
		pod = idle
	case standby != nil && healthy:
		pod = standby
	case primary != nil && standby == nil && (healthy || !o.isServing(primary)):
		pod = primary
	default:
		return nil, "", left
	}
	return pod, reasons[pod.Name], left
}

// outdated says why a pod isn't as the spec wishes; empty where it is. One that has never started is replaced for any
// change of its template: what kept it may have been mended there.
func outdated(pod *corev1.Pod, wanted, revision string) string {
	switch {
	case pod.Annotations[restartAnnotation] != wanted:
		return "its image, resources or placement changed"
	case !everStarted(pod) && revision != "" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != revision:
		return "it never started, and its template changed"
	}
	return ""
}

func isRunning(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == postgresContainer && s.State.Running != nil
	})
}

// everStarted reports that the member has served since the pod was made.
func everStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == postgresContainer && (s.Started != nil && *s.Started || s.State.Running != nil && s.RestartCount == 0 ||
			s.RestartCount > 0 && s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.ExitCode != launcher.ExitRefused)
	})
}

// checkpointLimit leaves time for the rest of the reconcile.
const checkpointLimit = 25 * time.Second

// rollOut restarts at most one pod.
func (r *Reconciler) rollOut(ctx context.Context, db *databasev1.Database, o *observed, wanted string) *problem {
	if o.set == nil {
		return nil
	}
	pod, why, left := restart(o, wanted, o.set.Status.UpdateRevision, int(*o.set.Spec.Replicas))
	switch {
	case left == 0:
		return nil
	case o.set.Status.ObservedGeneration != o.set.Generation || o.set.Spec.Template.Annotations[restartAnnotation] != wanted:
		// A pod that is deleted now could come back by the old template.
		return &problem{reason: databasev1.ReasonRollingOut, message: "The replicas are about to be restarted."}
	}
	rolling := &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("%d of %d replicas are to be restarted.", left, len(o.pods))}
	if pod == nil {
		return rolling
	}
	if pod.Name == o.leader {
		limited, cancel := context.WithTimeout(ctx, checkpointLimit)
		r.checkpoint(limited, db, o) // so that what the next start has to replay is short
		cancel()
		r.Telemetry.Planned(db.UID)
	}
	if err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		rolling.err = fmt.Errorf("deleting the pod %q: %w", pod.Name, err)
		return rolling
	}
	r.Recorder.Eventf(db, pod, corev1.EventTypeNormal, databasev1.ReasonRestarting, "Restart", "The pod %s is restarted: %s.", pod.Name, why)
	return rolling
}

// restartInPlace lets Patroni restart PostgreSQL in the members that have a parameter to be set at a start: standbys
// first, one at a time, as a value that goes up needs it, then the primary, then again the standbys that must follow a
// value that goes down. A member is asked once for each state of the configuration: Patroni keeps the flag where it
// can't set the value yet.
func (r *Reconciler) restartInPlace(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret) *problem {
	pod, left := pendingRestart(o, func(key string) bool { return r.restarts.asked(db.UID, key) })
	if left == 0 {
		return nil
	}
	rolling := &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("PostgreSQL is to be restarted in %d of %d replicas for a parameter.", left, len(o.pods))}
	if pod == nil {
		return rolling
	}
	r.Recorder.Eventf(db, pod, corev1.EventTypeNormal, databasev1.ReasonRestarting, "Restart", "PostgreSQL in the pod %s is restarted for a parameter.", pod.Name)
	rolling.err = r.restartPostgres(ctx, pod, superuser)
	var refused *refusedError
	if rolling.err == nil || errors.As(rolling.err, &refused) { // otherwise it wasn't heard
		r.restarts.ask(db.UID, restartKey(o, pod))
	}
	return rolling
}

// pendingRestart is the member to be restarted now, nil for none, and how many have a restart before them.
func pendingRestart(o *observed, asked func(string) bool) (pod *corev1.Pod, left int) {
	var primary *corev1.Pod
	serving := true
	for i := range o.pods {
		p := &o.pods[i]
		serving = serving && o.isServing(p)
		switch {
		case !memberOf(p).PendingRestart:
		case p.Name == o.leader:
			primary = p
			left++
		default:
			left++
			if !asked(restartKey(o, p)) {
				pod = p
			}
		}
	}
	switch {
	case !serving && len(o.pods) > 1:
		return nil, left
	case pod == nil && primary != nil && !asked(restartKey(o, primary)):
		return primary, left
	}
	return pod, left
}

// restartKey names a member, the configuration, and whether the primary has it.
func restartKey(o *observed, pod *corev1.Pod) string {
	pending := false
	for i := range o.pods {
		pending = pending || o.pods[i].Name == o.leader && memberOf(&o.pods[i]).PendingRestart
	}
	return fmt.Sprintf("%s %t %s", pod.UID, pending, o.config)
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
