package dedicated_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/dedicated"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// site is a server whose one pod has no node: what the kubelet and Patroni write, the test writes, and a PostgreSQL of
// this machine answers for the pod.
type site struct {
	*world
	postgres *postgrestest.Server
	dsn      string // the superuser's
	servers  *dedicated.Servers
	key      types.NamespacedName
	reads    int      // of Secrets
	dialed   []string // the uids of the pods
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{world: newWorld(t), postgres: postgrestest.Start(t, postgrestest.Options{Major: 17})}
	s.dsn = s.postgres.SuperuserDSN()
	s.key = types.NamespacedName{Namespace: s.namespace, Name: "ledger"}
	s.start()
	s.create("ledger")
	s.quiet("ledger", 1)
	s.stop() // from here on the test is the only one that acts
	s.servers = dedicated.NewServers(&dedicated.Reconciler{Client: s.Client, Live: countedReader{s.Client, &s.reads}, FieldManager: "test",
		Dial: func(ctx context.Context, pod *corev1.Pod, _ int) (net.Conn, error) {
			s.dialed = append(s.dialed, string(pod.UID))
			var d net.Dialer
			return d.DialContext(ctx, "tcp", net.JoinHostPort(s.postgres.Host(), strconv.Itoa(s.postgres.Port())))
		}})
	t.Cleanup(s.servers.Close)
	s.setPassword(string(s.superuser().Data["superuser-password"]))
	return s
}

// countedReader counts the reads of Secrets.
type countedReader struct {
	client.Reader
	secrets *int
}

func (r countedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*corev1.Secret); ok {
		*r.secrets++
	}
	return r.Reader.Get(ctx, key, o, options...)
}

func (s *site) superuser() *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{}
	s.get("ledger-superuser", secret)
	return secret
}

// setPassword makes it PostgreSQL's, as the launcher does.
func (s *site) setPassword(password string) {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.dsn)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close(s.Context()) }()
	if _, err := conn.Exec(s.Context(), fmt.Sprintf("ALTER ROLE postgres PASSWORD '%s'", password)); err != nil {
		s.Fatal(err)
	}
	s.dsn = s.postgres.DSN("postgres", password, "postgres")
}

// lead makes the pod a ready primary.
func (s *site) lead() *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	s.eventually("there is a pod", func() bool {
		return s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "ledger-0"}, pod) == nil && pod.DeletionTimestamp == nil
	})
	pod.Labels["role"] = "primary"
	if err := s.Update(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.PodIP, pod.Status.PodIPs = "10.1.2.3", []corev1.PodIP{{IP: "10.1.2.3"}}
	if err := s.Status().Update(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
	leader := &corev1.ConfigMap{}
	s.get("ledger-leader", leader)
	leader.Annotations = map[string]string{"leader": "ledger-0"}
	if err := s.Update(s.Context(), leader); err != nil {
		s.Fatal(err)
	}
	return pod
}

// login asks the server something, and returns the pod that was dialed for it; empty for none.
func (s *site) login() string {
	s.Helper()
	admin, endpoint, err := s.servers.Connect(s.Context(), s.key)
	if err != nil {
		s.Fatal(err)
	}
	if want := "ledger." + s.namespace + ".svc.cluster.local"; endpoint.Host != want || endpoint.Port != 5432 || endpoint.SSLMode != "prefer" {
		s.Errorf("endpoint %+v, want the host %s", endpoint, want)
	}
	s.dialed = nil
	_, err = admin.Provision(s.Context(), postgres.Wish{Name: "orders", Password: "x", ConnectionLimit: postgres.NoConnectionLimit,
		Claim: postgres.Claim{Cluster: "c", Group: "g", Namespace: "n", Name: "orders", UID: "u"}})
	if err != nil {
		s.Fatal(err)
	}
	return strings.Join(s.dialed, " ")
}

func (s *site) unavailable(when string) {
	s.Helper()
	if _, _, err := s.servers.Connect(s.Context(), s.key); postgres.KindOf(err) != postgres.KindUnavailable || !strings.Contains(err.Error(), `"ledger"`) {
		s.Errorf("%s: %v", when, err)
	}
}

// TestConnect: there is one way to a server while its primary and the superuser's password stay.
func TestConnect(t *testing.T) {
	s := newSite(t)
	s.unavailable("without a primary")
	pod := s.lead()
	if dialed := s.login(); dialed != string(pod.UID) {
		t.Errorf("dialed %q, want the primary", dialed)
	}
	if dialed := s.login(); dialed != "" || s.reads != 1 {
		t.Errorf("a second look dials %q, and there were %d reads of the Secret, want one", dialed, s.reads)
	}

	// The superuser's Secret is written again with the same password, then with another.
	secret := s.superuser()
	secret.Annotations = map[string]string{"touched": "yes"}
	if err := s.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if dialed := s.login(); dialed != "" || s.reads != 2 {
		t.Errorf("after a write of the Secret: dialed %q, %d reads", dialed, s.reads)
	}
	secret.Data["superuser-password"] = []byte("another")
	if err := s.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.setPassword("another")
	if dialed := s.login(); dialed != string(pod.UID) || s.reads != 3 {
		t.Errorf("after a change of the password: dialed %q, %d reads", dialed, s.reads)
	}

	// Another pod of the same name and address.
	if err := s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually("there is another pod", func() bool {
		var now corev1.Pod
		return s.Get(t.Context(), client.ObjectKeyFromObject(pod), &now) == nil && now.UID != pod.UID
	})
	s.unavailable("while the new pod starts")
	again := s.lead()
	if dialed := s.login(); dialed != string(again.UID) || again.UID == pod.UID {
		t.Errorf("after a restart: dialed %q, want %q", dialed, again.UID)
	}
	if err := s.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.unavailable("without the superuser's Secret")
}

// TestConnectToNothing: a server that isn't there has ended, one that is being deleted when nothing is left that runs.
func TestConnectToNothing(t *testing.T) {
	s := newSite(t)
	ended := func(key types.NamespacedName, want bool) {
		t.Helper()
		if got, err := s.servers.Ended(t.Context(), key); got != want || err != nil {
			t.Errorf("%s has ended: %t, %v; want %t", key.Name, got, err, want)
		}
	}
	missing := types.NamespacedName{Namespace: s.namespace, Name: "missing"}
	if _, _, err := s.servers.Connect(t.Context(), missing); !apierrors.IsNotFound(err) {
		t.Errorf("a server that isn't there: %v", err)
	}
	ended(missing, true)
	ended(s.key, false)
	set := &appsv1.StatefulSet{}
	s.get("ledger", set)
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ledger"}}
	if err := s.Delete(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	ended(s.key, false)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ledger-0"}}
	s.scale(set, 0)
	s.gone(pod.DeepCopy())
	ended(s.key, false) // a pod may come back as long as there is a StatefulSet
	s.scale(set, 1)
	s.eventually("the pod is back", func() bool { return s.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil })
	if err := s.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	s.gone(set)
	ended(s.key, false)
	if err := s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.gone(pod)
	ended(s.key, true)
}

func (s *site) scale(set *appsv1.StatefulSet, replicas int32) {
	s.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	if err := s.Patch(s.Context(), set, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatal(err)
	}
}
