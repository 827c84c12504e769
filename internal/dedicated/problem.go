package dedicated

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// problem is why a Database isn't ready, or not up to date.
type problem struct {
	// reason is a condition's, message one line for people.
	reason, message string
	// stuck says that only a person can mend it.
	stuck bool
	// stale says that a write met a newer object: another look at once will do.
	stale bool
	// err is the cause, for the log; the reconcile fails with it and is tried again with backoff. nil where something
	// is waited for that wakes the Database by itself.
	err error
}

// crashes is how often a container must have ended for it to be a failing one and not a restarting one.
const crashes = 3

// diagnose says why the members don't all do their work; nil where they do. It is a pure function.
func diagnose(db *databasev1.Database, o *observed, now time.Time) *problem {
	want, started := int(db.Spec.Replicas), 0
	for i := range o.pods {
		if p := diagnosePod(&o.pods[i], now); p != nil {
			return p
		}
		if isStarted(&o.pods[i]) {
			started++
		}
	}
	switch serving := o.serving(); {
	case serving < want && (o.primary() != nil || started < want):
		return &problem{reason: databasev1.ReasonPodsStarting, message: fmt.Sprintf("%d of %d replicas are ready%s.", serving, want, o.copying())}
	case o.primary() == nil:
		return &problem{reason: databasev1.ReasonNoPrimary, message: "No replica takes writes; Patroni is electing one."}
	case o.synchronous(db) && len(o.sync) == 0:
		return &problem{reason: databasev1.ReasonPodsStarting, message: "No standby has every acknowledged write yet."}
	}
	return nil
}

// copying names the members that copy the primary's data: that may take long, and for ever where it fails again and again.
func (o *observed) copying() string {
	var names []string
	for i := range o.pods {
		pod := &o.pods[i]
		if memberOf(pod).State == "creating replica" && pod.DeletionTimestamp == nil && isRunning(pod) {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; copying the primary's data: " + strings.Join(names, ", ")
}

// isStarted reports that the member has served once since its container started.
func isStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == postgresContainer && s.Started != nil && *s.Started
	})
}

// schedulingTime is what a scheduler and a provisioner of volumes may take.
const schedulingTime = 15 * time.Second

func diagnosePod(pod *corev1.Pod, now time.Time) *problem {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && now.Sub(c.LastTransitionTime.Time) > schedulingTime {
			return &problem{reason: databasev1.ReasonUnschedulable, message: fmt.Sprintf("The pod %q can't be scheduled: %s", pod.Name, c.Message)}
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if p := diagnoseContainer(pod, s); p != nil {
			return p
		}
	}
	return nil
}

// pullFailures are the kubelet's reasons for a container that waits for its image in vain.
var pullFailures = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}

func diagnoseContainer(pod *corev1.Pod, s corev1.ContainerStatus) *problem {
	if _, refusal := inspectionOf([]corev1.ContainerStatus{s}); refusal != nil {
		return refused(refusal)
	}
	last := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
	waiting := s.State.Waiting
	failing := s.Started == nil || !*s.Started // it has not served since its last end
	if last != nil && last.ExitCode == launcher.ExitRefused && failing {
		if _, refusal, err := launcher.ParseReport(strings.TrimSpace(last.Message)); err == nil && refusal != nil {
			return refused(refusal)
		}
	}
	switch {
	case waiting != nil && slices.Contains(pullFailures, waiting.Reason):
		return &problem{reason: databasev1.ReasonImagePullFailed, stuck: true, message: fmt.Sprintf(
			"The image %q can't be pulled: check spec.image and spec.imagePullSecrets.", s.Image)}
	case waiting != nil && waiting.Reason == "CreateContainerConfigError":
		return &problem{reason: databasev1.ReasonPodFailing, message: fmt.Sprintf("The pod %q can't start: %s", pod.Name, waiting.Message)}
	case last != nil && last.ExitCode != 0 && s.RestartCount >= crashes && failing:
		return &problem{reason: databasev1.ReasonPodFailing, message: fmt.Sprintf(
			"The container %q of the pod %q ends again and again, with exit status %d: see kubectl logs %s -c %s --previous",
			s.Name, pod.Name, last.ExitCode, pod.Name, s.Name)}
	}
	return nil
}

// refused is what the launcher's refusal of an image or of a volume means. Its reasons are conditions' reasons.
func refused(r *launcher.Refusal) *problem {
	message := strings.TrimSuffix(strings.ToUpper(r.Message[:min(1, len(r.Message))])+r.Message[min(1, len(r.Message)):], ".") + "."
	return &problem{reason: string(r.Reason), message: message, stuck: true}
}
