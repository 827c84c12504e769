//go:build linux

package faults

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/databases/internal/testenv"
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

// TestAwaitPrimary: one that isn't ready is waited for, and two are told at once.
func TestAwaitPrimary(t *testing.T) {
	c := testenv.Get(t).Client()
	target := &Target{Client: c, Namespace: testenv.Namespace(t, c), Name: "db"}
	for _, name := range []string{"db-0", "db-1"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: target.Namespace, Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: "postgres"}}},
		}
		if err := c.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	yes, no := true, false
	endpoints := slice(target.Namespace, "one", endpoint("db-0", "a", "198.18.0.2", &no), endpoint("db-1", "b", "198.18.0.3", &no))
	if err := c.Create(t.Context(), endpoints); err != nil {
		t.Fatal(err)
	}
	ready := make(chan error, 1)
	go func() {
		time.Sleep(3 * pollInterval)
		endpoints.Endpoints[0].Conditions.Ready = &yes
		ready <- c.Update(t.Context(), endpoints)
	}()
	pod, err := target.awaitPrimary(t.Context())
	if changed := <-ready; changed != nil {
		t.Fatal(changed)
	}
	if err != nil || pod.Name != "db-0" {
		t.Fatalf("the primary is %v, %v", pod, err)
	}
	endpoints.Endpoints[1].Conditions.Ready = &yes
	if err := c.Update(t.Context(), endpoints); err != nil {
		t.Fatal(err)
	}
	if pod, err := target.awaitPrimary(t.Context()); !errors.Is(err, errSeveral) {
		t.Errorf("of two the primary is %v, %v", pod, err)
	}
}
