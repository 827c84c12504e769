//go:build linux

package faults

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// askLimit is how long members may take to say whether they take writes.
const askLimit = 5 * time.Second

// Each is what every member answers to a statement with one column, as text, by the name of its pod.
func (t *Target) Each(ctx context.Context, statement string) (map[string]string, error) {
	pods, err := t.pods(ctx)
	if err != nil {
		return nil, err
	}
	answers := map[string]string{}
	for i := range pods {
		answer, err := t.ask(ctx, &pods[i], statement)
		if err != nil {
			return nil, err
		}
		answers[pods[i].Name] = answer
	}
	return answers, nil
}

func (t *Target) ask(ctx context.Context, pod *corev1.Pod, statement string) (answer string, err error) {
	conn, err := t.connect(ctx, pod)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, statement).Scan(&answer); err != nil {
		return "", fmt.Errorf("asking the pod %s: %w", pod.Name, err)
	}
	return answer, nil
}

// takesWrites is what each member says at this moment of whether it does, for people: also that it doesn't answer.
func (t *Target) takesWrites(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	pods, err := t.pods(ctx)
	if err != nil {
		return err.Error()
	}
	said := make([]string, len(pods))
	var all sync.WaitGroup // at once: a moment later they may say something else
	for i := range pods {
		all.Go(func() {
			answer, err := t.ask(ctx, &pods[i], "SELECT CASE WHEN pg_is_in_recovery() THEN 'is in recovery' ELSE 'takes writes' END")
			if err != nil {
				answer = "gives no answer: " + err.Error()
			}
			said[i] = pods[i].Name + " " + answer
		})
	}
	all.Wait()
	return strings.Join(said, "; ")
}
