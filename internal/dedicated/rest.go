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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// restTimeout is for one request. A switchover takes some seconds, and so does a restart of the synchronous standby, which
// Patroni first lets be another one's part, for two of its loops at most.
const restTimeout = 25 * time.Second

// lookTimeout is for a question, which a member that lives answers at once.
const lookTimeout = 3 * time.Second

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

// reinitialize lets the member throw its data away and copy the primary's.
func (r *Reconciler) reinitialize(ctx context.Context, pod *corev1.Pod, superuser *corev1.Secret) error {
	return r.ask(ctx, pod, superuser, "reinitialize", map[string]any{"force": true}) // whatever hangs there is ended
}

const (
	// hastenFor is for how long Patroni is hastened, from when a primary is alone, and once from when each standby is ready.
	hastenFor = 30 * time.Second
	// hastenEvery is for how long a primary isn't asked again.
	hastenEvery = time.Second
)

// hasten lets a primary that has no synchronous standby look around now, and not at Patroni's next loop: until it has
// found one that streams and chosen it, a write is on its own volume only, and nobody could take over. A change of the
// configuration wakes Patroni; this one changes nothing. Where it fails the next loop does it. It reports whether there is
// more of it to do.
func (r *Reconciler) hasten(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret, now time.Time) bool {
	primary := o.primary()
	if primary == nil || !o.synchronous(db) || len(o.sync) > 0 {
		r.alone.update(db.UID, nil, now)
		return false
	}
	since := r.alone.update(db.UID, []types.UID{primary.UID}, now)[primary.UID]
	ready, recent := false, now.Sub(since) < hastenFor
	for i := range o.pods {
		if pod := &o.pods[i]; pod.Name != o.leader && isPodReady(pod) {
			ready, recent = true, r.restarts.within(db.UID, "ready "+string(pod.UID), now, now.Add(hastenFor)) || recent
		}
	}
	key := "hasten " + string(primary.UID)
	if !ready || !recent || r.restarts.asked(db.UID, key, now) {
		return ready && recent
	}
	r.restarts.ask(db.UID, key, now.Add(hastenEvery))
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if _, err := r.call(ctx, primary, superuser, http.MethodPatch, "config", []byte(`{"wake": null}`)); err != nil {
		log.FromContext(ctx).V(1).Info("Patroni isn't woken", "err", err.Error())
	}
	return true
}

// memberNow is what the member says of itself.
func (r *Reconciler) memberNow(ctx context.Context, pod *corev1.Pod, superuser *corev1.Secret) (member, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var m member
	answer, err := r.call(ctx, pod, superuser, http.MethodGet, "patroni", nil)
	if err == nil {
		err = json.Unmarshal(answer, &m)
	}
	return m, err
}

// ask posts to the REST interface of Patroni in the pod.
func (r *Reconciler) ask(ctx context.Context, pod *corev1.Pod, superuser *corev1.Secret, what string, with map[string]any) error {
	body, err := json.Marshal(with)
	if err == nil {
		_, err = r.call(ctx, pod, superuser, http.MethodPost, what, body)
	}
	return err
}

// call sends a request to the REST interface of Patroni in the pod and returns its answer.
func (r *Reconciler) call(ctx context.Context, pod *corev1.Pod, superuser *corev1.Secret, method, what string, body []byte) ([]byte, error) {
	client := &http.Client{Timeout: restTimeout, Transport: r.Telemetry.Transport(&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx, pod, restPort) },
	})}
	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://%s:%d/%s", pod.Name, restPort, what), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(launcher.UserREST, string(superuser.Data[launcher.KeyREST]))
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking Patroni in the pod %q for %q: %w", pod.Name, what, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 10_000))
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		said := strings.Join(strings.Fields(string(answer[:min(len(answer), 1000)])), " ")
		return nil, &refusedError{fmt.Sprintf("patroni in the pod %q refuses %q: %s: %s", pod.Name, what, response.Status, said)}
	}
	return answer, err
}
