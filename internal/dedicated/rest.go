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

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// restTimeout is for one request; a switchover takes some seconds.
const restTimeout = 20 * time.Second

// switchover makes another pod the primary, by the REST interface of Patroni in the pod.
func (r *Reconciler) switchover(ctx context.Context, db *databasev1.Database, leader *corev1.Pod, candidate string, superuser *corev1.Secret) error {
	body, err := json.Marshal(map[string]string{"leader": leader.Name, "candidate": candidate})
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: restTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx, leader, restPort) },
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s:%d/switchover", leader.Name, restPort), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.SetBasicAuth(launcher.UserREST, string(superuser.Data[launcher.KeyREST]))
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking Patroni of %s for a switchover: %w", db.Name, err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("patroni refuses the switchover: %s: %s", response.Status, strings.Join(strings.Fields(string(answer)), " "))
	}
	return nil
}
