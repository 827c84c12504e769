//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// startupRuns is how often a start is measured: twice, so that it works, or as often as a figure needs it.
func startupRuns(t *testing.T) int {
	t.Helper()
	number := os.Getenv("E2E_STARTS")
	if number == "" {
		return 2
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		t.Fatalf("E2E_STARTS=%s: it must be a positive number", number)
	}
	return n
}

// steps are the steps of a start, in their order, each named by what ends it.
var steps = []string{
	"the objects are applied", "the volume is bound", "the pod has a node", "Patroni is copied into it", "the container runs",
	"Patroni leads", "the pod is ready", "the Database is Ready",
}

// TestStartup measures how long one replica takes from create to Ready, where the images are there, and what takes
// the time. It prints a table; docs/server.md has one.
func TestStartup(t *testing.T) {
	runs := startupRuns(t)
	w := newWorld(t)
	w.start()
	w.create("warm", sized("400Mi"))
	w.ready("warm")
	shares, totals := make([][]time.Duration, len(steps)), []time.Duration(nil)
	for i := range runs {
		name := fmt.Sprintf("run-%d", i)
		times := w.timeStart(name)
		last := times[0]
		for s, at := range times[1:] {
			at = max(at, last) // what was seen late was there before
			shares[s] = append(shares[s], at-last)
			last = at
		}
		totals = append(totals, last)
		w.kubectl("delete", "database", name)
		w.gone(name+"-0", &corev1.Pod{})
	}
	fmt.Printf("\n| until | median, s | share |\n| --- | --- | --- |\n")
	var sum time.Duration
	for s := range steps {
		sum += median(shares[s])
	}
	for s, step := range steps {
		m := median(shares[s])
		fmt.Printf("| %s | %.2f | %.0f %% |\n", step, m.Seconds(), 100*float64(m)/float64(sum))
	}
	slices.Sort(totals)
	fmt.Printf("| **all, %d runs** | **%.2f** (%.2f to %.2f) | |\n\n", runs, median(totals).Seconds(), totals[0].Seconds(), totals[len(totals)-1].Seconds())
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// timeStart creates a Database and returns when each step had ended, after the create; the first is 0.
func (w *world) timeStart(name string) []time.Duration {
	w.Helper()
	c, err := client.NewWithWatch(testenv.Get(w).Config, client.Options{Scheme: scheme})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	ended := make(chan int, 100)
	follow := func(list client.ObjectList, step func(client.Object) int) {
		watch, err := c.Watch(ctx, list, client.InNamespace(w.namespace))
		if err != nil {
			w.Fatal(err)
		}
		go func() {
			for event := range watch.ResultChan() {
				o, ok := event.Object.(client.Object)
				if !ok || !strings.Contains(o.GetName(), name) {
					continue
				}
				if s := step(o); s > 0 {
					ended <- s
				}
			}
		}()
	}
	follow(&appsv1.StatefulSetList{}, func(client.Object) int { return 1 })
	follow(&corev1.PersistentVolumeClaimList{}, func(o client.Object) int {
		if o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound {
			return 2
		}
		return 0
	})
	follow(&corev1.PodList{}, func(o client.Object) int { return podStep(o.(*corev1.Pod)) })
	follow(&databasev1.DatabaseList{}, func(o client.Object) int {
		if apimeta.IsStatusConditionTrue(o.(*databasev1.Database).Status.Conditions, databasev1.ConditionReady) {
			return 8
		}
		return 0
	})
	times := make([]time.Duration, len(steps)+1)
	start := time.Now()
	w.create(name, sized("400Mi"))
	for times[len(steps)] == 0 {
		select {
		case s := <-ended:
			if times[s] == 0 {
				times[s] = time.Since(start)
			}
		case <-ctx.Done():
			w.Fatalf("%s is not Ready", name)
		}
	}
	return times
}

// podStep is the last of the steps that a pod has behind it.
func podStep(pod *corev1.Pod) int {
	condition := func(kind corev1.PodConditionType) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == kind && c.Status == corev1.ConditionStatus(metav1.ConditionTrue)
		})
	}
	switch {
	case condition(corev1.PodReady):
		return 7
	case pod.Labels["role"] == "primary":
		return 6
	case len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil:
		return 5
	case condition(corev1.PodInitialized):
		return 4
	case condition(corev1.PodScheduled):
		return 3
	}
	return 0
}
