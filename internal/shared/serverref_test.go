package shared_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// dedicatedServers are servers without pods: a real PostgreSQL stands for all of them, as far as they are up.
type dedicatedServers struct {
	admin    postgres.Admin
	endpoint credentials.Endpoint

	mu sync.Mutex
	// state is up, down or ended; a server that isn't there isn't found.
	state    map[string]string
	connects int
}

func (s *dedicatedServers) Connect(_ context.Context, server types.NamespacedName) (postgres.Admin, credentials.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connects++
	switch s.state[server.Name] {
	case "up":
		return s.admin, s.endpoint, nil
	case "down", "ended":
		return nil, credentials.Endpoint{}, &postgres.Error{Kind: postgres.KindUnavailable, Message: "no primary"}
	}
	return nil, credentials.Endpoint{}, apierrors.NewNotFound(schema.GroupResource{Group: "database.example.com", Resource: "databases"}, server.Name)
}

func (s *dedicatedServers) Ended(_ context.Context, server types.NamespacedName) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state[server.Name]
	return state == "" || state == "ended", nil
}

func (s *dedicatedServers) set(server, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state[server] = state
}

func (s *dedicatedServers) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connects
}

// withDedicated gives the world dedicated servers, with the superuser of a PostgreSQL as admin.
func (w *world) withDedicated(server *postgrestest.Server) *dedicatedServers {
	w.Helper()
	file := filepath.Join(w.TempDir(), "superuser")
	if err := os.WriteFile(file, []byte(server.SuperuserDSN()), 0o600); err != nil {
		w.Fatal(err)
	}
	admin, err := postgres.NewServer(file, w.trips.intercept)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(admin.Close)
	s := &dedicatedServers{admin: admin, state: map[string]string{},
		endpoint: credentials.Endpoint{Host: server.Host(), Port: server.Port(), SSLMode: "prefer"}}
	w.options.Servers = s
	return s
}

// createServer makes a dedicated Database that its own controller leaves alone.
func (w *world) createServer(name string) {
	w.Helper()
	db := &databasev1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{databasev1.PausedAnnotation: "true"}},
		Spec: databasev1.DatabaseSpec{
			Image: "postgres:15", DatabaseName: "mydb", Username: "admin", Storage: databasev1.Storage{Size: "1Gi"},
		},
	}
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
}

// reportServer writes the dedicated Database's status, as its controller does.
func (w *world) reportServer(name, patch string) {
	w.Helper()
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	if err := w.Status().Patch(w.Context(), db, client.RawPatch(types.MergePatchType, []byte(`{"status":`+patch+`}`))); err != nil {
		w.Fatal(err)
	}
}

func on(server string) func(*v1alpha1.Database) {
	return func(db *v1alpha1.Database) { db.Spec.ServerRef.Name = server }
}

// TestServerRef: a Database waits for the server that it names, lives there, and is looked at again when something
// happened to the server that concerns it.
func TestServerRef(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := w.withDedicated(sharedServer)
	w.options.Settings.Postgres = nil // needs none
	w.start()
	w.create("orders", on("ledger"))
	w.create("other", on("another"))
	w.wait("orders", v1alpha1.ReasonServerNotFound)
	if got := w.message("orders"); !strings.Contains(got, `dedicated Database "ledger"`) {
		t.Errorf("message %q", got)
	}
	servers.set("ledger", "down")
	w.createServer("ledger")
	w.wait("orders", v1alpha1.ReasonPostgresUnavailable)
	if got := w.message("orders"); !strings.Contains(got, `dedicated Database "ledger"`) {
		t.Errorf("message %q", got)
	}
	servers.set("ledger", "up")
	w.reportServer("ledger", `{"primary":"ledger-0","ready":true}`)
	db := w.ready("orders")
	w.mustLogIn("orders", "CREATE TABLE t (i int)")
	secret := w.secret("orders")
	if string(secret.Data["sslmode"]) != "prefer" || string(secret.Data["host"]) != servers.endpoint.Host {
		t.Errorf("the Secret says sslmode %s, host %s", secret.Data["sslmode"], secret.Data["host"])
	}
	if claim := w.query(fmt.Sprintf("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = '%s'", db.Spec.Name)); !strings.HasSuffix(claim[0][0], string(db.UID)) {
		t.Errorf("the role carries the claim %q", claim)
	}

	// What is settled costs one SELECT and no request.
	servers.set("another", "up")
	w.createServer("another")
	w.ready("other")
	w.settle()
	w.trips.take()
	w.requests.take()
	before := servers.asked()
	w.touch("orders", "1") // the test's own client isn't counted
	w.eventually("it is looked at", func() bool { return servers.asked() > before })
	w.settle()
	if reads, writes := w.requests.take(); len(reads)+len(writes) > 0 {
		t.Errorf("a look at what is settled: reads %q, writes %q", reads, writes)
	}
	if trips := w.trips.take(); len(trips) != 1 || !strings.HasPrefix(trips[0], "SELECT") {
		t.Errorf("a look at what is settled: round trips %q", trips)
	}

	// Only what concerns it wakes it: nothing else would look for an hour.
	before = servers.asked()
	w.reportServer("ledger", `{"readyReplicas":1}`)
	w.reportServer("ledger", `{"primary":null,"ready":false}`)
	w.reportServer("another", `{"primary":"another-1"}`)
	w.eventually("the other server's Database is looked at", func() bool { return servers.asked() > before })
	w.settle()
	if n := servers.asked() - before; n != 1 {
		t.Errorf("%d looks, want one at the other server's Database alone", n)
	}
	for _, patch := range []string{`{"primary":"ledger-1"}`, `{"ready":true}`} {
		before = servers.asked()
		w.reportServer("ledger", patch)
		w.eventually("it is looked at after "+patch, func() bool { return servers.asked() > before })
		w.settle()
	}
	servers.set("ledger", "")
	if err := w.Delete(t.Context(), &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ledger"}}); err != nil {
		t.Fatal(err)
	}
	w.wait("orders", v1alpha1.ReasonServerNotFound)
}

// TestServerRefBacksOff: the Databases of a dedicated server don't wait for the server that the program was started with,
// nor does one server's fault touch the other's Databases.
func TestServerRefBacksOff(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{Major: 16})
	w := newWorld(t)
	w.withDedicated(server).set("ledger", "up")
	w.start()
	w.create("here", on("ledger"))
	w.create("there")
	w.ready("here")
	w.ready("there")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	w.touch("here", "1")
	w.touch("there", "1")
	w.wait("here", v1alpha1.ReasonPostgresUnavailable)
	if got := w.message("here"); !strings.Contains(got, `"ledger"`) || strings.Contains(got, "POSTGRES_") {
		t.Errorf("message %q", got)
	}
	w.settle()
	w.ready("there")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ready("here") // nothing wakes it but its own backoff
}

// TestServerRefNames: what a server itself is made of is refused like everything that is another's.
func TestServerRefNames(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
	w := newWorld(t)
	servers := w.withDedicated(server)
	servers.set("ledger", "up")
	_, err := servers.admin.Provision(t.Context(), postgres.Wish{Name: "admin", Database: "mydb", Password: "x", ConnectionLimit: postgres.NoConnectionLimit,
		Claim: postgres.Claim{Cluster: "c", Group: databasev1.GroupVersion.Group, Namespace: w.namespace, Name: "ledger", UID: "u"}})
	if err == nil {
		err = server.Exec(t.Context(), "CREATE ROLE replicator LOGIN REPLICATION")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	before, err := server.Query(t.Context(), "SELECT rolname, xmin FROM pg_authid UNION ALL SELECT datname, xmin FROM pg_database ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{
		"admin": v1alpha1.ReasonNameConflict, "mydb": v1alpha1.ReasonAlreadyExists, "replicator": v1alpha1.ReasonNameReserved,
	} {
		w.create(name, specName(name), on("ledger"), deletePolicy)
		w.wait(name, reason)
		w.delete(name)
		w.gone(name)
	}
	reserved := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "x"}, Spec: v1alpha1.DatabaseSpec{Name: "postgres"}}
	reserved.Spec.ServerRef.Name = "ledger"
	if err := w.Create(t.Context(), reserved); !apierrors.IsInvalid(err) {
		t.Errorf("the superuser's name: %v", err)
	}
	after, err := server.Query(t.Context(), "SELECT rolname, xmin FROM pg_authid UNION ALL SELECT datname, xmin FROM pg_database ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something changed: %s", diff)
	}
}

// TestServerRefDeletion: Delete drops where there is a server, waits for one that may come back, and ends without SQL
// where it has ended; Retain needs none.
func TestServerRefDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := w.withDedicated(sharedServer)
	servers.set("ledger", "up")
	w.createServer("ledger")
	w.start()
	names := map[string]string{}
	for _, name := range []string{"dropped", "waits", "gives-up", "never"} {
		names[name] = w.create(name, on("ledger"), deletePolicy).Spec.Name
		w.ready(name)
	}
	names["kept"] = w.create("kept", on("ledger")).Spec.Name
	w.ready("kept")
	exists := func(name string, want bool) {
		t.Helper()
		if role, database := w.exists(names[name]); role != want || database != want {
			t.Errorf("%s: role %t, database %t, want %t", name, role, database, want)
		}
	}
	w.delete("dropped")
	w.gone("dropped")
	exists("dropped", false)

	servers.set("ledger", "down")
	for _, name := range []string{"waits", "gives-up", "kept"} {
		w.delete(name)
	}
	w.gone("kept")
	exists("kept", true)
	for _, name := range []string{"waits", "gives-up"} {
		w.wait(name, v1alpha1.ReasonPostgresUnavailable)
		if got := w.message(name); !strings.Contains(got, "spec.deletionPolicy to Retain") {
			t.Errorf("message %q", got)
		}
	}
	update(w, "gives-up", &v1alpha1.Database{}, func(db *v1alpha1.Database) { db.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
	w.gone("gives-up")
	exists("gives-up", true)

	// What was paused stays so, whatever becomes of the server.
	update(w, "never", &v1alpha1.Database{}, func(db *v1alpha1.Database) {
		db.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"}
	})
	w.delete("never")
	servers.set("ledger", "ended")
	w.gone("waits")
	exists("waits", true)
	if events := w.events("waits"); !slices.Contains(events, "Normal "+v1alpha1.ReasonDatabaseLeft) {
		t.Errorf("events %q", events)
	}
	w.settle()
	w.get("never", &v1alpha1.Database{})
	servers.set("ledger", "")
	update(w, "never", &v1alpha1.Database{}, func(db *v1alpha1.Database) { db.Annotations = nil })
	w.goneWithin("never", 30*time.Second)
	exists("never", true)
}
