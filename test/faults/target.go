//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// Target is a Database and how to reach what is around it.
type Target struct {
	Client          client.Client
	Namespace, Name string
	// Kubectl runs kubectl in the Target's namespace.
	Kubectl func(ctx context.Context, arguments ...string) (string, error)
}

func (t *Target) get(ctx context.Context, name string, o client.Object) error {
	return t.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: name}, o)
}

func (t *Target) database(ctx context.Context) (*databasev1.Database, error) {
	db := &databasev1.Database{}
	return db, t.get(ctx, t.Name, db)
}

func (t *Target) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := t.Client.List(ctx, &list, client.InNamespace(t.Namespace), client.MatchingLabels{"app": "database", "database": t.Name})
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items, err
}

// primary is the pod that is behind the Service.
func (t *Target) primary(ctx context.Context) (*corev1.Pod, error) {
	found, err := readyEndpoints(ctx, t.Client, t.Namespace, t.Name)
	if err != nil {
		return nil, err
	}
	if n := len(found.ready); n != 1 {
		err := fmt.Errorf("the ready endpoints of the Service are %q, want one", found.ready)
		if n > 1 {
			err = fmt.Errorf("%w: %w", errSeveral, err)
		}
		return nil, err
	}
	pod := &corev1.Pod{}
	return pod, t.get(ctx, found.ready[0], pod)
}

// errSeveral is what must not be, and no reason to ask again.
var errSeveral = errors.New("two primaries are ready")

// awaitPrimary asks until there is one, as a readiness probe is late now and then.
func (t *Target) awaitPrimary(ctx context.Context) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, compareLimit)
	defer cancel()
	var last error
	for {
		pod, err := t.primary(ctx)
		switch {
		case err == nil || errors.Is(err, errSeveral):
			return pod, err
		case ctx.Err() != nil && last != nil:
			return nil, last
		case ctx.Err() != nil:
			return nil, err
		}
		last = err
		wait(ctx, pollInterval)
	}
}

// standby is the synchronous one; the first, where there are several. Where none is to be synchronous it is one that streams.
func (t *Target) standby(ctx context.Context) (*corev1.Pod, error) {
	db, err := t.database(ctx)
	if err != nil {
		return nil, err
	}
	if db.Spec.Durability == databasev1.DurabilityAsync {
		return t.streamingStandby(ctx)
	}
	store := &corev1.ConfigMap{}
	if err := t.get(ctx, t.Name+"-sync", store); err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(store.Annotations["sync_standby"], ",")
	if name == "" {
		return nil, errors.New("Patroni's store names no synchronous standby")
	}
	pod := &corev1.Pod{}
	return pod, t.get(ctx, name, pod)
}

// streamingStandby is the first by name that streams from the primary.
func (t *Target) streamingStandby(ctx context.Context) (*corev1.Pod, error) {
	primary, err := t.primary(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := t.connect(ctx, primary)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var name string // Patroni names the connections of its members so
	err = conn.QueryRow(ctx, "SELECT application_name FROM pg_stat_replication WHERE state = 'streaming' ORDER BY 1 LIMIT 1").Scan(&name)
	if err != nil {
		return nil, fmt.Errorf("looking for a standby that streams: %w", err)
	}
	pod := &corev1.Pod{}
	return pod, t.get(ctx, name, pod)
}

// address is where clients find the primary.
func (t *Target) address(ctx context.Context) (string, error) {
	service := &corev1.Service{}
	err := t.get(ctx, t.Name, service)
	return service.Spec.ClusterIP, err
}

func (t *Target) secret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, t.get(ctx, t.Name+databasev1.SecretSuffix, secret)
}

// connect connects to one member as the superuser.
func (t *Target) connect(ctx context.Context, pod *corev1.Pod) (*pgx.Conn, error) {
	db, err := t.database(ctx)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	if err := t.get(ctx, t.Name+"-superuser", secret); err != nil {
		return nil, err
	}
	config, err := Login{
		Host: pod.Status.PodIP, Port: databasev1.Port, Database: db.Spec.DatabaseName, User: launcher.RoleSuperuser,
		Password: string(secret.Data[launcher.KeySuperuser]),
	}.Config()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the pod %s: %w", pod.Name, err)
	}
	return conn, nil
}

// apiPeers are where a pod finds the API server: its Service, and what is behind that.
func (t *Target) apiPeers(ctx context.Context) ([]peer, error) {
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: "default", Name: "kubernetes"}
	if err := t.Client.Get(ctx, key, service); err != nil {
		return nil, err
	}
	var peers []peer
	for _, port := range service.Spec.Ports {
		peers = append(peers, peer{service.Spec.ClusterIP, port.Port})
	}
	var behind discoveryv1.EndpointSliceList
	if err := t.Client.List(ctx, &behind, client.InNamespace(key.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: key.Name}); err != nil {
		return nil, err
	}
	own := len(peers)
	for _, slice := range behind.Items {
		for _, endpoint := range slice.Endpoints {
			for _, port := range slice.Ports {
				for _, address := range endpoint.Addresses {
					peers = append(peers, peer{address, *port.Port})
				}
			}
		}
	}
	if own == 0 || len(peers) == own {
		return nil, errors.New("the API server's Service has no ports or no endpoints")
	}
	return peers, nil
}

// Settled says what is missing until the Database is as before any fault: Ready, nothing to be carried out, one primary to
// which all others stream, one of them synchronously if it is to be. nil where nothing is.
func (t *Target) Settled(ctx context.Context) error {
	db, err := t.database(ctx)
	if err != nil {
		return err
	}
	for kind, reason := range map[string]string{
		databasev1.ConditionReady: databasev1.ReasonProvisioned, databasev1.ConditionUpToDate: databasev1.ReasonUpToDate,
	} {
		c := apimeta.FindStatusCondition(db.Status.Conditions, kind)
		switch {
		case c == nil:
			return fmt.Errorf("%s isn't set", kind)
		case c.Reason != reason || c.ObservedGeneration != db.Generation:
			return fmt.Errorf("%s: %s: %s", kind, c.Reason, c.Message)
		}
	}
	pods, err := t.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			return fmt.Errorf("the pod %s is being deleted", pods[i].Name)
		}
	}
	if want := int(db.Spec.Replicas); len(pods) != want || int(db.Status.ReadyReplicas) != want {
		return fmt.Errorf("%d pods, %d of them ready, want %d", len(pods), db.Status.ReadyReplicas, want)
	}
	return t.streaming(ctx, db)
}

// streaming asks PostgreSQL itself, as the status may be of a moment ago.
func (t *Target) streaming(ctx context.Context, db *databasev1.Database) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	primary, err := t.primary(ctx)
	if err != nil {
		return err
	}
	if primary.Name != db.Status.Primary {
		return fmt.Errorf("the status names %q as primary, the Service has %q", db.Status.Primary, primary.Name)
	}
	conn, err := t.connect(ctx, primary)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var recovering bool
	var streaming, synchronous int
	err = conn.QueryRow(ctx, `SELECT pg_is_in_recovery(), count(*) FILTER (WHERE state = 'streaming'),
count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication`).Scan(&recovering, &streaming, &synchronous)
	switch {
	case err != nil:
		return fmt.Errorf("asking the primary: %w", err)
	case recovering:
		return fmt.Errorf("%s is behind the Service and takes no writes", primary.Name)
	case streaming != int(db.Spec.Replicas)-1:
		return fmt.Errorf("%d standbys stream", streaming)
	case db.Spec.Durability != databasev1.DurabilityAsync && synchronous == 0:
		return errors.New("no standby is synchronous")
	}
	return nil
}

// Missing are, for each member that lacks some, the acknowledged rows that it doesn't have after it has all that the
// primary has.
func (t *Target) Missing(ctx context.Context, ledger *Ledger) (map[string][]int64, error) {
	primary, err := t.awaitPrimary(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := t.connect(ctx, primary)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var position string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&position); err != nil {
		return nil, err
	}
	pods, err := t.pods(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]int64{}
	for i := range pods {
		at := position
		if pods[i].Name == primary.Name {
			at = ""
		}
		missing, err := t.missingIn(ctx, &pods[i], at, ledger)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pods[i].Name, err)
		}
		if len(missing) > 0 {
			all[pods[i].Name] = missing
		}
	}
	return all, nil
}

// missingIn looks at a member after it has replayed up to a position, if there is one.
func (t *Target) missingIn(ctx context.Context, pod *corev1.Pod, position string, ledger *Ledger) ([]int64, error) {
	conn, err := t.connect(ctx, pod)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	for caughtUp := position == ""; !caughtUp; {
		if err := conn.QueryRow(ctx, "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", position).Scan(&caughtUp); err != nil {
			return nil, fmt.Errorf("waiting for what the primary has: %w", err)
		}
		if !caughtUp {
			select {
			case <-ctx.Done():
				return nil, errors.New("it doesn't catch up")
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return ledger.Missing(ctx, conn)
}

// ended says that the container in which a pod's PostgreSQL ran has come to its end since the pod was looked at.
func (t *Target) ended(ctx context.Context, before *corev1.Pod) (bool, error) {
	now := &corev1.Pod{}
	if err := t.get(ctx, before.Name, now); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return endedSince(before, now), nil
}

func endedSince(before, now *corev1.Pod) bool {
	then, at := containerOf(before), containerOf(now)
	return now.UID != before.UID || at.RestartCount > then.RestartCount || at.State.Terminated != nil ||
		at.State.Waiting != nil && at.LastTerminationState.Terminated != nil // it waits for its next start, uncounted yet
}

// containerOf is the state of the container with PostgreSQL.
func containerOf(pod *corev1.Pod) corev1.ContainerStatus {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == "postgres" {
			return s
		}
	}
	return corev1.ContainerStatus{}
}
