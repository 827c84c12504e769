package dedicated

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// bench is a PostgreSQL that pools connect to, and how often they were made anew.
type bench struct {
	*testing.T
	postgres *postgrestest.Server
	servers  *Servers
	pools    *pools
	mu       sync.Mutex
	made     int
}

func newBench(t *testing.T, most int) *bench {
	t.Helper()
	b := &bench{T: t, postgres: postgrestest.Start(t, postgrestest.Options{Major: 17}), servers: &Servers{pools: newPools(most)}}
	b.pools = &b.servers.pools
	if err := b.postgres.Exec(t.Context(), "CREATE ROLE super SUPERUSER LOGIN PASSWORD 'secret'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.servers.Close)
	return b
}

func (b *bench) connect() (server, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made++
	return postgres.NewServerAt(postgres.Connection{
		Address: net.JoinHostPort(b.postgres.Host(), strconv.Itoa(b.postgres.Port())), User: "super", Password: "secret", Database: "postgres",
	}, nil)
}

func (b *bench) put(name, pod, version, password string) *pool {
	return b.pools.put(key(name), at(pod), version, password, b.connect)
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }
func at(pod string) route                  { return route{server: "s", pod: types.UID(pod), ip: "10.0.0.1"} }

// use provisions a database by way of the pool.
func (b *bench) use(p *pool, name string) {
	b.Helper()
	_, err := p.Provision(b.Context(), postgres.Wish{Name: name, Password: "x", ConnectionLimit: postgres.NoConnectionLimit,
		Claim: postgres.Claim{Cluster: "c", Group: "g", Namespace: "n", Name: name, UID: "u"}})
	if err != nil {
		b.Error(err)
	}
}

func (b *bench) connections() int {
	b.Helper()
	rows, err := b.postgres.Query(context.WithoutCancel(b.Context()), "SELECT count(*) FROM pg_stat_activity WHERE usename = 'super'")
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.Atoi(rows[0][0])
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// connected waits until there are that many connections: they end in the background.
func (b *bench) connected(want int) {
	b.Helper()
	for deadline := time.Now().Add(30 * time.Second); b.connections() != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d connections, want %d", b.connections(), want)
		}
	}
}

func TestPoolIsShared(t *testing.T) {
	b := newBench(t, maxPools)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			p := b.pools.find(key("a"), at("pod"), "1")
			if p == nil {
				p = b.put("a", "pod", "1", "secret")
			}
			b.use(p, fmt.Sprintf("db%d", i))
		})
	}
	all.Wait()
	if n := b.connections(); n < 1 || n > postgres.MaxConnections {
		t.Errorf("%d connections, want at most %d", n, postgres.MaxConnections)
	}
	if b.made != 1 {
		t.Errorf("%d pools were made, want one", b.made)
	}
}

// TestPoolIsReplaced: another pod, address or password is another pool, and the old one's connections end, with the last
// call at the latest. A Secret that was only written again changes nothing.
func TestPoolIsReplaced(t *testing.T) {
	b := newBench(t, maxPools)
	first := b.put("a", "pod", "1", "secret")
	b.use(first, "one")
	if b.pools.find(key("a"), at("pod"), "2") != nil {
		t.Error("a pool is found though the Secret's version is another")
	}
	if b.put("a", "pod", "2", "secret") != first || b.pools.find(key("a"), at("pod"), "2") != first {
		t.Error("the same password makes another pool")
	}
	other := at("pod")
	other.ip = "10.0.0.2"
	if b.pools.find(key("a"), at("other"), "2") != nil || b.pools.find(key("a"), other, "2") != nil {
		t.Error("a pool is found for another pod")
	}
	second := b.put("a", "pod", "3", "changed")
	b.connected(0)
	if second == first {
		t.Fatal("a changed password makes no other pool")
	}
	began, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = second.with(func(admin server) error {
			_, err := admin.CheckLogin(t.Context(), "super", "postgres", "secret")
			b.use(second, "two")
			close(began)
			<-end
			if err == nil {
				err = admin.Checkpoint(t.Context()) // its connections are still there
			}
			if err != nil {
				t.Error(err)
			}
			return err
		})
	}()
	<-began
	third := b.put("a", "other", "3", "changed")
	b.use(third, "three")
	close(end)
	<-done
	b.connected(1) // the third's
	b.use(second, "two")
	b.connected(1) // who still has the second may use it, and leaves nothing
	b.pools.remove(key("a"))
	b.connected(0)
}

// TestPoolsOpen: what isn't used is closed, and opened again without the password being asked for.
func TestPoolsOpen(t *testing.T) {
	b := newBench(t, 3)
	var all []*pool
	for i := range 8 {
		p := b.put(fmt.Sprint("server", i), "pod", "1", "secret")
		b.use(p, "one")
		all = append(all, p)
	}
	b.connected(3)
	for i, p := range all {
		if open := i >= 5; (p.admin != nil) != open {
			t.Errorf("server%d: open %t, want the last used ones to be", i, !open)
		}
	}
	b.pools.sweep(time.Now().Add(poolIdle / 2))
	b.connected(3)
	b.pools.sweep(time.Now().Add(2 * poolIdle))
	b.connected(0)
	again := b.pools.find(key("server7"), at("pod"), "1")
	if again != all[7] {
		t.Fatal("it is forgotten")
	}
	b.use(again, "one")
	b.connected(1)
	b.pools.sweep(time.Now().Add(2 * poolForgotten))
	b.connected(0)
	if len(b.pools.known)+len(b.pools.open) > 0 {
		t.Errorf("%d pools are remembered, %d open", len(b.pools.known), len(b.pools.open))
	}
}

func TestUsers(t *testing.T) {
	now := metav1.Now()
	user := func(name, server string, policy v1alpha1.DeletionPolicy, deleted bool) v1alpha1.Database {
		db := v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Name: name}}
		db.Spec.ServerRef.Name, db.Spec.DeletionPolicy = server, policy
		if deleted {
			db.DeletionTimestamp = &now
		}
		return db
	}
	all := []v1alpha1.Database{
		user("f-live", "a", v1alpha1.DeletionPolicyRetain, false), user("e-live", "a", v1alpha1.DeletionPolicyDelete, false),
		user("d-leaves", "a", v1alpha1.DeletionPolicyRetain, true), user("c-drops", "a", v1alpha1.DeletionPolicyDelete, true),
		user("b-elsewhere", "b", v1alpha1.DeletionPolicyDelete, false), user("a-nowhere", "", v1alpha1.DeletionPolicyDelete, false),
	}
	if diff := cmp.Diff([]string{"c-drops", "e-live", "f-live"}, usersOf(all, "a", true)); diff != "" {
		t.Errorf("while the server answers: %s", diff)
	}
	if diff := cmp.Diff([]string{"e-live", "f-live"}, usersOf(all, "a", false)); diff != "" {
		t.Errorf("while it doesn't: %s", diff)
	}
	const instruction = ". Delete them (kubectl delete pgdb NAME); where one is being deleted and can't be dropped, set its spec.deletionPolicy to Retain."
	for want, users := range map[string][]string{
		"a":                        {"a"},
		"a, b, c, d, e":            {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if diff := cmp.Diff("The server runs on, because shared Databases live on it: "+want+instruction, inUseMessage(users)); diff != "" {
			t.Error(diff)
		}
	}
}
