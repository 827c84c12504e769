package dedicated

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/example/databases/internal/launcher"
)

// restTimeout is for one request; a switchover takes some seconds.
const restTimeout = 20 * time.Second

// refusedError is Patroni's own answer that it doesn't do what it was asked for.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return e.message }

// switchover makes another pod the primary, by the REST interface of Patroni in the pod.
func (r *Reconciler) switchover(ctx context.Context, leader *corev1.Pod, candidate string, superuser *corev1.Secret) error {
	return r.ask(ctx, leader, superuser, "switchover", map[string]any{"leader": leader.Name, "candidate": candidate})
}

// restartPostgres restarts PostgreSQL in the pod, where a parameter waits for it.
func (r *Reconciler) restartPostgres(ctx context.Context, pod *corev1.Pod, superuser *corev1.Secret) error {
	return r.ask(ctx, pod, superuser, "restart", map[string]any{"restart_pending": true})
}

// ask posts to the REST interface of Patroni in the pod.
func (r *Reconciler) ask(ctx context.Context, pod *corev1.Pod, superuser *corev1.Secret, what string, with map[string]any) error {
	body, err := json.Marshal(with)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: restTimeout, Transport: r.Telemetry.Transport(&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx, pod, restPort) },
	})}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s:%d/%s", pod.Name, restPort, what), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.SetBasicAuth(launcher.UserREST, string(superuser.Data[launcher.KeyREST]))
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking Patroni in the pod %q for a %s: %w", pod.Name, what, err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		return &refusedError{fmt.Sprintf("patroni in the pod %q refuses a %s: %s: %s", pod.Name, what, response.Status, strings.Join(strings.Fields(string(answer)), " "))}
	}
	return nil
}
