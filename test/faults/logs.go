//go:build linux

package faults

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// logsInterval is how often the Logs look for new containers.
const logsInterval = time.Second

// Logs follows the logs of a Database's containers into files, also of those that are gone before anybody asks.
type Logs struct {
	folder string
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// FollowLogs begins to, from now on.
func FollowLogs(ctx context.Context, config *rest.Config, t *Target, folder string) (*Logs, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Logs{folder: folder, cancel: cancel}
	since := time.Now()
	l.wait.Go(func() {
		known := map[string]bool{}
		for ctx.Err() == nil {
			pods, err := t.pods(ctx)
			for i := range pods {
				for _, s := range pods[i].Status.ContainerStatuses {
					if s.State.Running == nil || known[s.ContainerID] || err != nil {
						continue
					}
					known[s.ContainerID] = true
					name := fmt.Sprintf("%s-%s-%d.log", pods[i].Name, pods[i].UID[:8], s.RestartCount)
					l.wait.Go(func() { l.follow(ctx, clients, &pods[i], since, name) })
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(logsInterval):
			}
		}
	})
	return l, nil
}

func (l *Logs) follow(ctx context.Context, clients kubernetes.Interface, pod *corev1.Pod, since time.Time, name string) {
	file, err := os.Create(filepath.Join(l.folder, name))
	if err != nil {
		return // the round is worth more than its logs
	}
	defer func() { _ = file.Close() }()
	seconds := int64(time.Since(since).Seconds()) + 1
	stream, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: "postgres", Follow: true, Timestamps: true, SinceSeconds: &seconds,
	}).Stream(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(file, "no log:", err)
		return
	}
	defer func() { _ = stream.Close() }()
	_, _ = io.Copy(file, stream)
}

// Stop ends the following, and deletes what was written unless it is to be kept.
func (l *Logs) Stop(keep bool) error {
	l.cancel()
	l.wait.Wait()
	if keep {
		return nil
	}
	return os.RemoveAll(l.folder)
}

// demotion is what a pod's Patroni says where it gives up its lead, and before that, which member it got no answer from. Empty where
// it says nothing of the kind, or nobody follows the logs.
func (l *Logs) demotion(pod string) string {
	if l == nil {
		return ""
	}
	files, _ := filepath.Glob(filepath.Join(l.folder, pod+"-*.log"))
	unanswered := ""
	for _, file := range files {
		content, _ := os.ReadFile(file)
		for line := range strings.Lines(string(content)) {
			switch line = strings.TrimSpace(line); {
			case strings.Contains(line, "Request failed to "):
				unanswered = line + "; "
			case strings.Contains(line, "demoting self"), strings.Contains(line, "demoted self"):
				return unanswered + line
			}
		}
	}
	return ""
}
