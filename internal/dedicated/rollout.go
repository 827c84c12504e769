package dedicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// roll is what a rolling change does next.
type roll struct {
	// pod is to be deleted, to come back as the spec wishes; nil for none now. why says what is wrong with it.
	pod *corev1.Pod
	why string
	// move says that pod is the primary, which another member is to be before it is deleted.
	move bool
	// left counts the pods that aren't as the spec wishes; held says what the next one waits for.
	left int
	held string
}

// planRoll takes pods that don't work first, then standbys, one at a time and each only while all replicas are there
// and serve; the primary is the last, and where there are standbys it is moved first. A pod that worked doesn't count as
// one that doesn't because it was silent for a moment; and where one that is as the spec wishes doesn't work, the wish
// may be why, and no other one that ever worked is given up for it. It is a pure function.
func planRoll(o *observed, wanted, revision string, replicas int, now time.Time) roll {
	var broken, standby, primary *corev1.Pod
	reasons := map[string]string{}
	r := roll{held: o.unhealthy(replicas)}
	wishFails := false
	for i := range o.pods {
		p := &o.pods[i]
		reason := outdated(p, wanted, revision)
		if reason != "" {
			r.left++
		}
		switch {
		case p.DeletionTimestamp != nil:
			continue
		case reason == "":
			wishFails = wishFails || !o.isServing(p)
			continue
		}
		reasons[p.Name] = reason
		switch {
		case !everStarted(p), isBroken(p, now):
			broken = p
		case p.Name == o.leader:
			primary = p
		default:
			standby = p
		}
	}
	healthy := r.held == ""
	switch {
	case slices.ContainsFunc(o.pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }):
		return r // one at a time
	case len(o.pods) > replicas:
		return r // others go first
	case broken != nil && o.bootstrapping && isRunning(broken):
		return r // what it makes would be left half made
	case broken != nil && (!everStarted(broken) || !wishFails):
		r.pod = broken
	case standby != nil && healthy:
		r.pod = standby
	case primary != nil && standby == nil && healthy:
		r.pod, r.move = primary, replicas > 1
	default:
		return r
	}
	r.held, r.why = "", reasons[r.pod.Name]
	return r
}

// brokenAfter is how long a pod that worked must have been not ready to count as broken.
const brokenAfter = time.Minute

// isBroken reports that a pod hasn't been ready for long.
func isBroken(pod *corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) > brokenAfter
	})
}

// unhealthy names the member that isn't as it should be; empty where all serve.
func (o *observed) unhealthy(replicas int) string {
	for i := range o.pods {
		switch p := &o.pods[i]; {
		case p.DeletionTimestamp != nil:
			return p.Name + " is ending"
		case !isPodReady(p):
			return p.Name + " is not ready"
		case !o.isServing(p):
			return p.Name + " does not stream"
		}
	}
	if len(o.pods) != replicas {
		return fmt.Sprintf("%d pods are there, and %d are to be", len(o.pods), replicas)
	}
	return ""
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

const (
	// checkpointLimit leaves time for the rest of the reconcile.
	checkpointLimit = 20 * time.Second
	// lagLimit is how much of the write-ahead log, in bytes, a standby may lack for the next step: one file of it.
	lagLimit = 16 << 20
)

// rollOut takes one step of a rolling change: it restarts a pod, or moves the primary off the last one.
func (r *Reconciler) rollOut(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret, wanted string) *problem {
	if o.set == nil {
		return nil
	}
	replicas := int(*o.set.Spec.Replicas)
	step := planRoll(o, wanted, o.set.Status.UpdateRevision, replicas, time.Now())
	progress := func(now string) *problem { return rolling(len(o.pods)-step.left, max(replicas, len(o.pods)), now) }
	switch {
	case step.left == 0:
		return nil
	case o.set.Status.ObservedGeneration != o.set.Generation || o.set.Spec.Template.Annotations[restartAnnotation] != wanted:
		// A pod that is deleted now could come back by the old template.
		return progress("the StatefulSet is told")
	case step.pod == nil:
		return progress(step.held)
	}
	if len(o.pods) > 1 && o.isServing(step.pod) {
		if held, err := r.lagging(ctx, o, superuser, step.pod); held != "" || err != nil {
			return progress(held).because(err)
		}
	}
	if step.move {
		return r.movePrimary(ctx, db, o, superuser, maxReplicas, progress(""))
	}
	if step.pod.Name == o.leader {
		limited, cancel := context.WithTimeout(ctx, checkpointLimit)
		r.checkpoint(limited, db, o) // so that what the next start has to replay is short
		cancel()
		r.Telemetry.Planned(db.UID)
	}
	doing := progress(step.pod.Name + " is restarted")
	if err := r.Client.Delete(ctx, step.pod, client.Preconditions{UID: &step.pod.UID}); client.IgnoreNotFound(err) != nil {
		return doing.because(fmt.Errorf("deleting the pod %q: %w", step.pod.Name, err))
	}
	r.Recorder.Eventf(db, step.pod, corev1.EventTypeNormal, databasev1.ReasonRestarting, "Restart", "The pod %s is restarted: %s.", step.pod.Name, step.why)
	return doing
}

// rolling says how far a rolling change is, and what is done or waited for.
func rolling(done, replicas int, now string) *problem {
	message := fmt.Sprintf("%d of %d replicas are as the spec wishes", done, replicas)
	if now != "" {
		message += "; " + now
	}
	return &problem{reason: databasev1.ReasonRollingOut, message: message + "."}
}

// because adds the cause for which the step is tried again.
func (p *problem) because(err error) *problem {
	p.err = err
	return p
}

// lagging says which standby but the one that is restarted is too far behind for the next step; empty for none.
func (r *Reconciler) lagging(ctx context.Context, o *observed, superuser *corev1.Secret, restarted *corev1.Pod) (string, error) {
	primary := o.primary()
	if primary == nil {
		return "there is no primary", nil
	}
	standbys, err := r.standbys(ctx, primary, superuser)
	if err != nil {
		return "the standbys' lag can't be read", err
	}
	for i := range o.pods {
		name := o.pods[i].Name
		if name == primary.Name || name == restarted.Name {
			continue
		}
		if lag, streams := standbys[name]; !streams || lag > lagLimit {
			return name + " has to catch up", nil
		}
	}
	return "", nil
}

// standbys asks the primary who streams from it. It fails where the pod is no primary any more.
func (r *Reconciler) standbys(ctx context.Context, primary *corev1.Pod, superuser *corev1.Secret) (map[string]int64, error) {
	admin, err := r.connect(primary, superuser)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return admin.Standbys(ctx)
}

// movePrimary lets a standby below the ordinal that has every acknowledged write be the primary, so that the present one
// can be restarted as a standby, or go. p is what is said of the change.
func (r *Reconciler) movePrimary(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret, below int, p *problem) *problem {
	leader, candidate := o.primary(), o.candidate(below, o.synchronous(db))
	done := strings.TrimSuffix(p.message, ".")
	if leader == nil || candidate == nil {
		p.message = done + "; no standby that stays has every acknowledged write, so that it could be the primary."
		return p
	}
	// After the API server was away from the primary, standbys take the primary's own word for Patroni's ttl that it leads,
	// and would leave the place of one that steps down empty for that long.
	now, err := r.memberNow(ctx, candidate, superuser)
	if err != nil {
		return p.because(err)
	}
	switch {
	case now.Role == rolePrimary: // the cache is behind
		p.message = fmt.Sprintf("%s; the primary has moved to %s.", done, candidate.Name)
		return p
	case now.Failsafe:
		p.message = done + "; " + candidate.Name + " is to see first that the API server is back."
		return p
	}
	limited, cancel := context.WithTimeout(ctx, checkpointLimit)
	r.checkpoint(limited, db, o) // so that the shutdown before the promotion has little to write
	cancel()
	r.Telemetry.Planned(db.UID)
	p.message = fmt.Sprintf("%s; the primary moves from %s to %s.", done, leader.Name, candidate.Name)
	if err := r.switchover(ctx, leader, candidate.Name, superuser); err != nil {
		// What became of it may be known although the answer was lost.
		if now, unknown := r.memberNow(ctx, candidate, superuser); unknown != nil || now.Role != rolePrimary {
			return p.because(err)
		}
	}
	r.restarts.forget(db.UID) // so that all are asked again where the same value is wished for again
	r.Recorder.Eventf(db, candidate, corev1.EventTypeNormal, databasev1.ReasonSwitchover, "Switchover",
		"The primary moved from %s to %s, for a planned change.", leader.Name, candidate.Name)
	return p
}

// restartInPlace lets Patroni restart PostgreSQL in the members that have a parameter to be set at a start: standbys
// first, one at a time, as a value that goes up needs it, then the primary, then again the standbys that must follow a
// value that goes down. A member is asked once for each state of the configuration: Patroni keeps the flag where it
// can't set the value yet.
func (r *Reconciler) restartInPlace(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret) *problem {
	shown := 0
	for i := range o.pods {
		if memberOf(&o.pods[i]).PendingRestart {
			shown++
		}
	}
	if shown == 0 || r.configured.waiting(db.UID) { // who is to be first depends on all of them
		return nil
	}
	if held := o.unhealthy(len(o.pods)); held != "" && len(o.pods) > 1 {
		return rolling(len(o.pods)-shown, len(o.pods), held)
	}
	said, silent, err := r.membersNow(ctx, o, superuser)
	if silent != "" {
		return rolling(len(o.pods)-shown, len(o.pods), "Patroni in "+silent+" does not answer").because(err)
	}
	waiting := map[string]bool{}
	for name, now := range said {
		if now.PendingRestart {
			waiting[name] = true
		}
	}
	if len(waiting) == 0 { // their annotations will say so too
		return nil
	}
	progress := func(now string) *problem { return rolling(len(o.pods)-len(waiting), len(o.pods), now) }
	pod, refuses := nextRestart(o, waiting, func(key string) bool { return r.restarts.asked(db.UID, key, time.Now()) })
	switch {
	case refuses:
		return progress(pod.Name + " refused to restart PostgreSQL; it is asked again within a minute")
	case pod == nil:
		return progress("PostgreSQL has to be restarted for a parameter")
	}
	if len(o.pods) > 1 {
		if held, err := r.lagging(ctx, o, superuser, pod); held != "" || err != nil {
			return progress(held).because(err)
		}
	}
	switch {
	case pod.Name == o.leader && len(waiting) == 1 && len(o.pods) > 1:
		// A primary that becomes a standby is restarted by that, and the standby has the new value already. Where a value
		// goes down the standbys wait for the primary: then more than one waits.
		return r.movePrimary(ctx, db, o, superuser, maxReplicas, progress(""))
	case pod.Name != o.leader && len(o.pods) > 1 && !waiting[o.leader] && !r.hasReplayed(ctx, pod, superuser, said[o.leader].XLog.Location):
		// The primary's value is in its log: a standby that stops before it has come to that starts with its old one.
		return progress(pod.Name + " has to catch up")
	}
	if pod.Name == o.leader {
		r.Telemetry.Planned(db.UID)
	}
	key := restartKey(o, waiting, pod)
	err = r.restartPostgres(ctx, pod, superuser)
	var refused *refusedError
	if told := "told " + key; !errors.As(err, &refused) && !r.restarts.asked(db.UID, told, time.Now()) { // once, also where it wasn't heard
		r.restarts.ask(db.UID, told, time.Time{})
		r.Recorder.Eventf(db, pod, corev1.EventTypeNormal, databasev1.ReasonRestarting, "Restart", "PostgreSQL in the pod %s is restarted for a parameter.", pod.Name)
	}
	switch {
	case refused != nil:
		r.restarts.ask(db.UID, refusedKey(key), time.Now().Add(refusedPause))
	case err != nil: // it wasn't heard
	case pod.Name == o.leader:
		r.restarts.forget(db.UID) // standbys that waited for it are asked anew
		fallthrough
	default:
		r.restarts.ask(db.UID, key, time.Time{})
	}
	return progress("PostgreSQL in " + pod.Name + " is restarted for a parameter").because(err)
}

// refusedPause is after which a member that refused to restart is asked again.
const refusedPause = time.Minute

// membersNow is what each member says of itself: what the pods' annotations say may be a loop of Patroni old. silent is
// one that doesn't answer.
func (r *Reconciler) membersNow(ctx context.Context, o *observed, superuser *corev1.Secret) (said map[string]member, silent string, err error) {
	said = map[string]member{}
	for i := range o.pods {
		name := o.pods[i].Name
		if said[name], err = r.memberNow(ctx, &o.pods[i], superuser); err != nil {
			return nil, name, err
		}
	}
	return said, "", nil
}

// hasReplayed waits a moment until the standby has replayed the log up to there, and reports whether it has.
func (r *Reconciler) hasReplayed(ctx context.Context, pod *corev1.Pod, superuser *corev1.Secret, location int64) bool {
	err := wait.PollUntilContextTimeout(ctx, replayPoll, lookTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := r.memberNow(ctx, pod, superuser)
		return err == nil && now.XLog.Replayed >= location && location > 0, nil
	})
	return err == nil
}

const replayPoll = 200 * time.Millisecond

// nextRestart is the member to be restarted now, of those that wait for it; nil for none, and one that refuses where it is
// to be asked again first. It is a pure function.
func nextRestart(o *observed, waiting map[string]bool, asked func(string) bool) (next *corev1.Pod, refuses bool) {
	for i := range o.pods {
		pod := &o.pods[i]
		key := restartKey(o, waiting, pod)
		switch {
		case !waiting[pod.Name] || asked(key):
		case asked(refusedKey(key)):
			return pod, true
		case next == nil || pod.Name != o.leader: // which is the last
			next = pod
		}
	}
	return next, false
}

// restartKey names a member, the configuration, and whether the primary has it.
func restartKey(o *observed, waiting map[string]bool, pod *corev1.Pod) string {
	sum, _ := hash(o.config) // a text has no way to fail
	return fmt.Sprintf("%s %t %s", pod.UID, waiting[o.leader], sum)
}

// refusedKey stands for as long as one that refused isn't asked again.
func refusedKey(key string) string { return "refused " + key }
