package dedicated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/status"
)

// conclude puts what was found into the status. It is a pure function.
func conclude(db *databasev1.Database, o *observed, f *findings) {
	s := &db.Status
	s.Ready = f.usable
	s.Endpoint = endpointOf(db)
	s.Selector = labels.SelectorFromSet(selectorLabels(db)).String()
	s.Replicas, s.ReadyReplicas = int32(len(o.pods)), int32(o.serving()) //nolint:gosec // there are ten at most
	s.Primary = ""
	if primary := o.primary(); primary != nil {
		s.Primary = primary.Name
	}
	if image := running(o); image != nil {
		s.Version, s.CollationVersion = image.PostgresVersion, image.CollationVersion
	}
	s.Phase = phaseOf(o, f)
	if f.ready == nil {
		status.Set(&s.Conditions, db.Generation, databasev1.ConditionReady, metav1.ConditionTrue, databasev1.ReasonProvisioned,
			"All replicas are ready, and the Secret logs in.")
	} else {
		status.Set(&s.Conditions, db.Generation, databasev1.ConditionReady, metav1.ConditionFalse, f.ready.reason, f.ready.message)
	}
	concludeUpToDate(db, f)
}

// writeStatus writes the status, once, where it changed.
func (r *Reconciler) writeStatus(ctx context.Context, stored *unstructured.Unstructured, before, after *databasev1.Database) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&after.Status)
	if err != nil {
		return err
	}
	written := stored.DeepCopy()
	written.Object["status"] = content
	err = r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		// Somebody changed the spec or an annotation while a step was taken, which is to be told all the same.
		now := awaitCache(ctx, r.Client, stored, 1)
		if now == nil || !equality.Semantic.DeepEqual(now.Object["status"], stored.Object["status"]) {
			return err
		}
		written = now.DeepCopy()
		written.Object["status"] = content
		err = r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(now, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return err
	}
	// The next look would end in a conflict otherwise, and what it did, a restart for one, would not be told. The client that
	// reads its own writes doesn't wait: controller-runtime 0.25 notes an untyped write under the typed form, which nobody reads.
	awaitCache(ctx, r.Client, written, 0)
	return nil
}

const (
	// cacheLimit is for how long a write is waited for; a watch that is late for longer is for the next look to find out.
	cacheLimit = 2 * time.Second
	cachePoll  = 5 * time.Millisecond
)

// awaitCache waits until the cache has the object as it was written, or, by 1, a newer one, and returns that; nil where it
// doesn't come, and where another object has the name.
func awaitCache(ctx context.Context, reader client.Reader, written *unstructured.Unstructured, by int) *unstructured.Unstructured {
	seen := newUnstructured()
	err := wait.PollUntilContextTimeout(ctx, cachePoll, cacheLimit, true, func(ctx context.Context) (bool, error) {
		if err := reader.Get(ctx, client.ObjectKeyFromObject(written), seen, client.DisableReadYourWritesConsistency); err != nil {
			return false, err
		}
		if seen.GetUID() != written.GetUID() {
			return false, errAnother
		}
		order, err := resourceversion.CompareResourceVersion(seen.GetResourceVersion(), written.GetResourceVersion())
		return order >= by, err
	})
	if err != nil {
		return nil
	}
	return seen
}

var errAnother = errors.New("another object has the name")

func concludeUpToDate(db *databasev1.Database, f *findings) {
	behind := f.behind
	if len(behind) == 0 && f.ready != nil {
		behind = []*problem{f.ready}
	}
	if len(behind) == 0 {
		status.Set(&db.Status.Conditions, db.Generation, databasev1.ConditionUpToDate, metav1.ConditionTrue, databasev1.ReasonUpToDate,
			"Everything that the spec wishes has been carried out.")
		return
	}
	var messages []string
	for _, p := range behind {
		messages = append(messages, p.message)
	}
	status.Set(&db.Status.Conditions, db.Generation, databasev1.ConditionUpToDate, metav1.ConditionFalse, behind[0].reason, strings.Join(messages, " "))
}

func phaseOf(o *observed, f *findings) databasev1.Phase {
	switch {
	case f.ready == nil:
		return databasev1.PhaseReady
	case f.ready.stuck:
		return databasev1.PhaseFailed
	}
	for i := range o.pods {
		if len(o.pods[i].Status.InitContainerStatuses) > 0 || o.pods[i].Status.Phase == corev1.PodRunning {
			return databasev1.PhaseCreating // a kubelet has it
		}
	}
	return databasev1.PhasePending
}

// report emits an event where Ready's or UpToDate's status or reason changed, and none for the first success.
func (r *Reconciler) report(ctx context.Context, before, after *databasev1.Database) {
	r.measure(ctx, before, after)
	for _, kind := range []string{databasev1.ConditionReady, databasev1.ConditionUpToDate} {
		if !status.Changed(before.Status.Conditions, after.Status.Conditions, kind) {
			continue
		}
		now := apimeta.FindStatusCondition(after.Status.Conditions, kind)
		old := apimeta.FindStatusCondition(before.Status.Conditions, kind)
		if now == nil || kind == databasev1.ConditionUpToDate && (now.Status == metav1.ConditionTrue || sameReason(now, after)) {
			continue // the same was said of Ready
		}
		if old == nil && now.Reason == databasev1.ReasonPodsStarting {
			continue // as every Database begins
		}
		event := corev1.EventTypeWarning
		if now.Status == metav1.ConditionTrue || expected[now.Reason] {
			event = corev1.EventTypeNormal
		}
		r.Recorder.Eventf(after, nil, event, now.Reason, "Reconcile", "%s", now.Message)
	}
}

// firstReadyLimit: no server is Ready, and then not Ready any more, within this time from its creation.
const firstReadyLimit = 5 * time.Second

// measure tells the telemetry how the Database changed. The status doesn't keep whether it was ever Ready; a condition
// that is False since the creation says that it wasn't.
func (r *Reconciler) measure(ctx context.Context, before, after *databasev1.Database) {
	r.Telemetry.Concluded(ctx, after.UID, before.Status.Conditions, after.Status.Conditions)
	r.Telemetry.Primary(ctx, after.UID, before.Status.Primary, after.Status.Primary)
	old := apimeta.FindStatusCondition(before.Status.Conditions, databasev1.ConditionReady)
	first := old == nil || old.Status == metav1.ConditionFalse && old.LastTransitionTime.Sub(after.CreationTimestamp.Time) < firstReadyLimit
	if first && apimeta.IsStatusConditionTrue(after.Status.Conditions, databasev1.ConditionReady) {
		r.Telemetry.FirstReady(ctx, after.CreationTimestamp.Time)
	}
}

func sameReason(c *metav1.Condition, db *databasev1.Database) bool {
	ready := apimeta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionReady)
	return ready != nil && ready.Reason == c.Reason
}

// expected are the reasons that are no cause for worry.
var expected = map[string]bool{
	databasev1.ReasonPodsStarting: true, databasev1.ReasonInspectingImage: true,
	databasev1.ReasonStorageResizing: true, databasev1.ReasonRollingOut: true,
}

// unreadable says of a stored object that it can't be read as a Database, and lets it go where it is being deleted.
func (r *Reconciler) unreadable(ctx context.Context, stored *unstructured.Unstructured, cause error) error {
	if stored.GetDeletionTimestamp() != nil {
		return client.IgnoreNotFound(r.patchFinalizers(ctx, stored, controllerutil.RemoveFinalizer))
	}
	message := fmt.Sprintf("The stored object can't be read as a Database: %s", cause)
	var conditions []metav1.Condition
	status.Set(&conditions, stored.GetGeneration(), databasev1.ConditionReady, metav1.ConditionFalse, databasev1.ReasonInvalidSpec, message)
	if reason, text := storedReady(stored); reason == databasev1.ReasonInvalidSpec && text == conditions[0].Message {
		return nil // said before
	}
	patch, err := json.Marshal(object{"status": object{"phase": databasev1.PhaseFailed, "ready": false, "conditions": conditions}})
	if err != nil {
		return err
	}
	err = r.Client.Status().Patch(ctx, stored.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsInvalid(err) { // the API server writes nothing of such an object, so that an event must say it
		r.Recorder.Eventf(stored, nil, corev1.EventTypeWarning, databasev1.ReasonInvalidSpec, "Reconcile", "%s", conditions[0].Message)
		return nil
	}
	return client.IgnoreNotFound(err)
}

// storedReady is the reason and the message of the condition Ready of an object that can't be read as a whole.
func storedReady(stored *unstructured.Unstructured) (reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(stored.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(object); ok && fields["type"] == databasev1.ConditionReady {
			reason, _ = fields["reason"].(string)
			message, _ = fields["message"].(string)
		}
	}
	return reason, message
}
