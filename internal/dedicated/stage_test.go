package dedicated

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

// fakePatroni answers for Patroni in each member, and notes what that is asked to do.
type fakePatroni struct {
	*httptest.Server
	mu       sync.Mutex
	password string
	orders   []string
	refuses  bool
	lost     bool             // what it is asked to do is done, and its answer doesn't come
	leads    string           // the member that says that it is the primary: the candidate of the last switchover
	behind   string           // the member that hasn't replayed all of the primary's log
	silent   string           // the member that doesn't answer
	pending  []string         // the members that say that they wait for a restart
	seen     map[string]int64 // when each member read the store last
}

func newFakePatroni(t *testing.T) *fakePatroni {
	p := &fakePatroni{password: "rest", seen: map[string]int64{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *fakePatroni) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, _, _ := strings.Cut(request.Host, ":")
	user, password, _ := request.BasicAuth()
	body, _ := io.ReadAll(request.Body)
	switch {
	case user != launcher.UserREST || password != p.password:
		http.Error(w, "who are you", http.StatusUnauthorized)
	case request.Method == http.MethodGet && request.URL.Path == "/patroni":
		_ = json.NewEncoder(w).Encode(p.status(name))
	case p.refuses:
		http.Error(w, "not\nnow", http.StatusServiceUnavailable)
	default:
		p.orders = append(p.orders, strings.TrimSpace(name+" "+request.URL.Path[1:]+" "+string(body)))
		if request.URL.Path == "/switchover" {
			var order struct{ Candidate string }
			_ = json.Unmarshal(body, &order)
			p.leads = order.Candidate
		}
		if p.lost {
			panic(http.ErrAbortHandler)
		}
	}
}

// status is what a member says of itself.
func (p *fakePatroni) status(name string) object {
	role, replayed := roleReplica, 100
	if name == p.leads {
		role = rolePrimary
	}
	if name == p.behind {
		replayed--
	}
	return object{"state": "running", "role": role, "pending_restart": slices.Contains(p.pending, name), "dcs_last_seen": p.seen[name],
		"xlog": object{"location": 100, "replayed_location": replayed}}
}

// take returns what the members were asked since the last time.
func (p *fakePatroni) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	orders := strings.Join(p.orders, "; ")
	p.orders = nil
	return orders
}

// set changes what the members answer.
func (p *fakePatroni) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// dial reaches Patroni in a pod.
func (p *fakePatroni) dial(ctx context.Context, pod *corev1.Pod) (net.Conn, error) {
	p.mu.Lock()
	silent := p.silent == pod.Name
	p.mu.Unlock()
	if silent {
		return nil, fmt.Errorf("no route to %s", pod.Name)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", p.Listener.Addr().String())
}

// reachPatroni is a Dialer that reaches nothing but Patroni.
func reachPatroni(p *fakePatroni) Dialer {
	return func(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error) {
		if port != restPort {
			return nil, fmt.Errorf("the port %d of %s isn't Patroni's", port, pod.Name)
		}
		return p.dial(ctx, pod)
	}
}

// secret is the superuser's, as the members have it.
func (p *fakePatroni) secret() *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{launcher.KeyREST: []byte(p.password)}}
}

// stage is a Database "a" whose pods have no node. What the kubelet and Patroni write, the test writes; each look at the
// Database is one call of Reconcile. With a PostgreSQL, that one answers for whichever pod is the primary.
type stage struct {
	*testing.T
	client.Client
	*Reconciler
	patroni  *fakePatroni
	postgres *postgrestest.Server
	events   *events.FakeRecorder
	key      client.ObjectKey
}

func newStage(t *testing.T, replicas int32, change ...func(*databasev1.Database)) *stage {
	t.Helper()
	api := testenv.Get(t).Client()
	s := &stage{T: t, Client: api, patroni: newFakePatroni(t), events: events.NewFakeRecorder(1000)}
	s.key = client.ObjectKey{Namespace: testenv.Namespace(t, api), Name: "a"}
	s.Reconciler = &Reconciler{Client: api, Live: api, FieldManager: "test", PatroniImage: "patroni", Recorder: s.events, Cluster: "c",
		Resync: time.Hour, LoginInterval: time.Hour,
		Dial: func(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error) {
			if port == restPort {
				return s.patroni.dial(ctx, pod)
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(s.postgres.Host(), strconv.Itoa(s.postgres.Port())))
		}}
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}, Spec: databasev1.DatabaseSpec{
		Image: "postgres:17", DatabaseName: "mydb", Username: "admin", Replicas: replicas, Storage: databasev1.Storage{Size: "1Gi"}}}
	for _, f := range change {
		f(db)
	}
	if err := api.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // or its finalizer keeps the namespace
		db := &databasev1.Database{}
		if err := api.Get(context.WithoutCancel(t.Context()), s.key, db); err == nil {
			db.Finalizers = nil
			_ = api.Update(context.WithoutCancel(t.Context()), db)
		}
	})
	s.look()
	s.patroni.password = string(s.superuserSecret().Data[launcher.KeyREST])
	return s
}

// withPostgres starts a PostgreSQL whose superuser has the Secret's password.
func (s *stage) withPostgres() *stage {
	s.Helper()
	s.postgres = postgrestest.Start(s.T, postgrestest.Options{Major: 17})
	if err := s.postgres.Exec(s.Context(), fmt.Sprintf("ALTER ROLE postgres PASSWORD '%s'", s.password())); err != nil {
		s.Fatal(err)
	}
	return s
}

func (s *stage) password() string {
	s.Helper()
	return string(s.superuserSecret().Data[launcher.KeySuperuser])
}

func (s *stage) superuserSecret() *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{}
	s.get("a"+suffixSuperuser, secret)
	return secret
}

func (s *stage) get(name string, o client.Object) {
	s.Helper()
	if err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.key.Namespace, Name: name}, o); err != nil {
		s.Fatal(err)
	}
}

// change updates an object, again where somebody was faster.
func (s *stage) change(name string, o client.Object, f func()) {
	s.Helper()
	s.eventually(name+" is changed", func() bool {
		s.get(name, o)
		f()
		return s.Update(s.Context(), o) == nil
	})
}

func (s *stage) eventually(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("it never happened that %s", what)
		}
	}
}

// settle waits until the StatefulSet's controller has done what it is to do.
func (s *stage) settle() {
	s.Helper()
	s.eventually("the StatefulSet has its pods", func() bool {
		set, all := &appsv1.StatefulSet{}, &corev1.PodList{}
		s.get("a", set)
		if err := s.List(s.Context(), all, client.InNamespace(s.key.Namespace)); err != nil {
			s.Fatal(err)
		}
		for i := range all.Items {
			if all.Items[i].DeletionTimestamp != nil {
				return false
			}
		}
		return set.Status.ObservedGeneration == set.Generation && len(all.Items) == int(*set.Spec.Replicas)
	})
}

// play makes the members what the words say, as for pods, and the store of Patroni what fits them: the standby that has every
// acknowledged write is named by the word "synchronous".
func (s *stage) play(members ...string) {
	s.Helper()
	s.settle()
	leader, synchronous := pods(members...).leader, ""
	for i, words := range members {
		name := fmt.Sprintf("a-%d", i)
		if strings.Contains(words, "synchronous") {
			synchronous = name
		}
		if words == "as it is" {
			continue
		}
		wish, pod := pods(members...).pods[i], &corev1.Pod{}
		s.change(name, pod, func() {
			pod.Labels[roleLabel] = wish.Labels[roleLabel]
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "status", wish.Annotations["status"])
		})
		wish.Status.Conditions[0].LastTransitionTime = metav1.Now()
		pod.Status.Conditions, pod.Status.ContainerStatuses = wish.Status.Conditions, wish.Status.ContainerStatuses
		pod.Status.PodIP, pod.Status.PodIPs = "10.1.2.3", []corev1.PodIP{{IP: "10.1.2.3"}}
		if err := s.Client.Status().Update(s.Context(), pod); err != nil {
			s.Fatal(err)
		}
	}
	for suffix, notes := range map[string]map[string]string{
		suffixLeader: {"leader": leader}, suffixSync: {"leader": leader, "sync_standby": synchronous}, suffixConfig: {"initialize": "7"},
	} {
		store := &corev1.ConfigMap{}
		s.change("a"+suffix, store, func() {
			for key, value := range notes {
				metav1.SetMetaDataAnnotation(&store.ObjectMeta, key, value)
			}
		})
	}
}

// look is one look at the Database; it returns what the condition UpToDate says then.
func (s *stage) look() string {
	s.Helper()
	for {
		result, err := s.Reconcile(s.Context(), reconcile.Request{NamespacedName: s.key})
		if err != nil {
			s.Fatal(err)
		}
		if result.RequeueAfter == 0 || result.RequeueAfter >= time.Second { // else somebody changed an object meanwhile
			break
		}
	}
	db := s.database()
	return apimeta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionUpToDate).Message
}

func (s *stage) database() *databasev1.Database {
	s.Helper()
	db := &databasev1.Database{}
	s.get("a", db)
	return db
}

// observed is what the Reconciler sees now.
func (s *stage) observed() *observed {
	s.Helper()
	o, err := s.observe(s.Context(), s.database())
	if err != nil {
		s.Fatal(err)
	}
	return o
}

// happened returns the events since the last time.
func (s *stage) happened() string { return taken(s.events) }

func taken(recorder *events.FakeRecorder) string {
	var all []string
	for {
		select {
		case event := <-recorder.Events:
			all = append(all, event)
		default:
			return strings.Join(all, "; ")
		}
	}
}

// checkpoints counts those that somebody has asked PostgreSQL for.
func (s *stage) checkpoints() int {
	s.Helper()
	log, err := s.postgres.Log()
	if err != nil {
		s.Fatal(err)
	}
	return strings.Count(log, "checkpoint starting: immediate force wait\n")
}
