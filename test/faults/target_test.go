//go:build linux

package faults

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEndedSince(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	gone := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	pod := func(uid types.UID, restarts int32, state, last corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "other", RestartCount: 9, State: gone},
			{Name: "postgres", RestartCount: restarts, State: state, LastTerminationState: last},
		}}}
	}
	before := pod("a", 2, running, gone)
	for _, test := range []struct {
		sentence string
		now      *corev1.Pod
		want     bool
	}{
		{"it runs as before, and had ended earlier", pod("a", 2, running, gone), false},
		{"it was started again", pod("a", 3, running, gone), true},
		{"it has just ended", pod("a", 2, gone, gone), true},
		{"it waits for its next start", pod("a", 2, waiting, gone), true},
		{"another pod has its name", pod("b", 0, running, corev1.ContainerState{}), true},
	} {
		if got := endedSince(before, test.now); got != test.want {
			t.Errorf("%s: ended: %t", test.sentence, got)
		}
	}
}
