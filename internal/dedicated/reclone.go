package dedicated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/postgres"
)

const (
	// defaultStuckAfter leaves time to replay what was written between two checkpoints, which are 5 minutes apart.
	defaultStuckAfter = 5 * time.Minute
	// recloneInterval: more often a member isn't cloned anew; what is wrong with it isn't its data then.
	recloneInterval = time.Hour
	// recloneAnnotation has, on a member's claim, when it was cloned anew last.
	recloneAnnotation = "database.example.com/recloned"
)

// idleSince remembers since when members don't do their work. It is kept in memory: after a restart of this program the
// time begins anew.
type idleSince struct {
	mu  sync.Mutex
	all map[types.UID]map[types.UID]time.Time // by Database and pod
}

// update notes which pods are idle now and returns since when each is.
func (s *idleSince) update(db types.UID, idle []types.UID, now time.Time) map[types.UID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := s.all[db], map[types.UID]time.Time{}
	for _, pod := range idle {
		after[pod] = now
		if since, known := before[pod]; known {
			after[pod] = since
		}
	}
	if s.all == nil {
		s.all = map[types.UID]map[types.UID]time.Time{}
	}
	if s.all[db] = after; len(after) == 0 {
		delete(s.all, db)
	}
	return after
}

// isIdle reports that a standby could do its work and doesn't: its container runs, or did and ends again and again, and it
// neither copies the primary's data nor streams.
func (o *observed) isIdle(pod *corev1.Pod) bool {
	state := memberOf(pod).State
	return pod.Name != o.leader && pod.DeletionTimestamp == nil && !o.isServing(pod) && state != "creating replica" &&
		(isRunning(pod) && state != "" || everStarted(pod))
}

// recloneStuck lets a standby be cloned anew that hasn't come to stream for long: its data may be broken, or the
// write-ahead log that it needs is gone. At most one at a time, each at most once an hour, and only from a primary that
// serves.
func (r *Reconciler) recloneStuck(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret, now time.Time) *problem {
	var idle []types.UID
	for i := range o.pods {
		if o.primary() != nil && o.isIdle(&o.pods[i]) { // without a primary there is nothing to stream
			idle = append(idle, o.pods[i].UID)
		}
	}
	since := r.idle.update(db.UID, idle, now)
	var first *problem
	for i := range o.pods {
		pod := &o.pods[i]
		began, isIdle := since[pod.UID]
		claim := o.claimOf(pod.Name)
		if !isIdle || claim == nil || now.Sub(began) < r.stuckAfter(o) {
			continue
		}
		if last, err := time.Parse(time.RFC3339, claim.Annotations[recloneAnnotation]); err == nil && now.Sub(last) < recloneInterval {
			first = cmp.Or(first, stuck(pod, claim, "although it was cloned anew at "+last.UTC().Format(time.RFC3339)))
			continue
		}
		if _, err := r.memberNow(ctx, pod, superuser); err != nil { // on a lost node, say
			first = cmp.Or(first, stuck(pod, claim, "and Patroni in it doesn't answer"))
			continue
		}
		if o.copying() != "" || o.clonedSince(now.Add(-r.stuckAfter(o))) {
			return cmp.Or(first, &problem{reason: databasev1.ReasonReplicaStuck, message: pod.Name + " does not stream, and waits for its turn to be cloned anew."})
		}
		return r.reclone(ctx, db, o, pod, claim, superuser, now)
	}
	return first
}

// clonedSince reports that a member was cloned anew lately: whether it streams is still to be seen.
func (o *observed) clonedSince(then time.Time) bool {
	return slices.ContainsFunc(o.claims, func(c corev1.PersistentVolumeClaim) bool {
		last, err := time.Parse(time.RFC3339, c.Annotations[recloneAnnotation])
		return err == nil && last.After(then) && !o.streams(strings.TrimPrefix(c.Name, volumeName+"-"))
	})
}

// streams reports that the member of this name does its work.
func (o *observed) streams(name string) bool {
	return slices.ContainsFunc(o.pods, func(p corev1.Pod) bool { return p.Name == name && o.isServing(&p) })
}

// stuck says what a person can do about a standby.
func stuck(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, how string) *problem {
	return &problem{reason: databasev1.ReasonReplicaStuck, message: fmt.Sprintf(
		"%s does not stream, %s: see kubectl describe pod %s and kubectl logs %s -c %s. If its data is broken, delete its claim %s and then the pod, and it begins from nothing.",
		pod.Name, how, pod.Name, pod.Name, postgresContainer, claim.Name)}
}

// reclone writes down first that it is done, so that a program that ends in between doesn't do it again and again.
func (r *Reconciler) reclone(ctx context.Context, db *databasev1.Database, o *observed, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, superuser *corev1.Secret, now time.Time) *problem {
	noted := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&noted.ObjectMeta, recloneAnnotation, now.UTC().Format(time.RFC3339))
	if err := r.Client.Patch(ctx, noted, client.MergeFrom(claim), client.FieldOwner(r.FieldManager)); err != nil {
		return childProblem(fmt.Errorf("noting on the claim %q that it is filled anew: %w", claim.Name, err))
	}
	p := &problem{reason: databasev1.ReasonRollingOut, message: pod.Name + " is cloned anew."}
	if err := r.reinitialize(ctx, pod, superuser); err != nil {
		refused := noted.DeepCopy()
		delete(refused.Annotations, recloneAnnotation)
		return p.because(errors.Join(err, r.Client.Patch(ctx, refused, client.MergeFrom(noted), client.FieldOwner(r.FieldManager))))
	}
	r.Recorder.Eventf(db, pod, corev1.EventTypeWarning, databasev1.ReasonRecloning, "Reclone",
		"The standby %s has not come to stream for %s: its data is thrown away and copied from the primary.", pod.Name, r.stuckAfter(o))
	return p
}

// stuckAfter is longer where checkpoints are rarer: a standby that starts replays what was written since the last one,
// and doesn't stream until it has.
func (r *Reconciler) stuckAfter(o *observed) time.Duration {
	apart, _ := postgres.Duration(configuredParameters(o.config)["checkpoint_timeout"], time.Second) // 0 for what isn't one
	return max(cmp.Or(r.StuckAfter, defaultStuckAfter), 2*apart)
}

// claimOf is the claim of the volume of the pod of this name; nil where the cache has none.
func (o *observed) claimOf(pod string) *corev1.PersistentVolumeClaim {
	for i := range o.claims {
		if o.claims[i].Name == volumeName+"-"+pod {
			return &o.claims[i]
		}
	}
	return nil
}
