package shared_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("warm-up")
	w.ready("warm-up")
	w.settle()
	w.trips.take()
	w.requests.take()

	w.create("orders", deletePolicy)
	db := w.ready("orders")
	w.settle()
	reads, writes := w.requests.take()
	if len(writes) > 3 || len(reads) > 1 {
		t.Errorf("API requests for one Database: reads %q, writes %q; want at most 1 and 3", reads, writes)
	}
	if trips := w.trips.take(); len(trips) > 6 {
		t.Errorf("round trips for one Database: %q, want at most 6", trips)
	}
	secret := w.secret("orders")
	want := map[string]string{"host": w.server.Host(), "port": fmt.Sprint(w.server.Port()), "database": db.Spec.Name,
		"username": db.Spec.Name, "sslmode": "disable", "type": "postgresql", "provider": "databases"}
	for key, value := range want {
		if got := string(secret.Data[key]); got != value {
			t.Errorf("Secret key %s = %q, want %q", key, got, value)
		}
	}
	if secret.Type != "servicebinding.io/postgresql" || len(secret.Data["password"]) < 20 {
		t.Errorf("Secret type %q, password of %d bytes", secret.Type, len(secret.Data["password"]))
	}
	if db.Status.SecretName != secret.Name || db.Status.Binding.Name != secret.Name ||
		db.Status.ObservedGeneration != db.Generation || db.Status.SecretVersion != string(secret.UID)+"/"+secret.ResourceVersion {
		t.Errorf("status %+v doesn't fit the Secret", db.Status)
	}
	w.mustLogIn("orders", "CREATE TABLE t (i int)")

	w.delete("orders")
	w.goneWithin("orders", 10*time.Second)
	if role, database := w.exists(db.Spec.Name); role || database {
		t.Errorf("after deletion: role %v, database %v", role, database)
	}
	w.eventually("the Secret went with its owner", func() bool { return w.secret("orders") == nil })
	if events := w.events("orders"); len(events) > 0 {
		t.Errorf("events of a life without trouble: %q", events)
	}
	w.requests.mu.Lock()
	defer w.requests.mu.Unlock()
	if len(w.requests.secretWatches) == 0 {
		t.Error("no watch of Secrets was seen")
	}
	for _, watch := range w.requests.secretWatches {
		if !strings.Contains(watch, "as=PartialObjectMetadata") || !strings.HasSuffix(watch, " app.kubernetes.io/managed-by=databases") {
			t.Errorf("Secrets are watched otherwise than as metadata with our label: %s", watch)
		}
	}
}

// events are the events about a Database, as "type reason".
func (w *world) events(name string) []string {
	w.Helper()
	time.Sleep(300 * time.Millisecond) // they are sent in the background
	var list eventsv1.EventList
	if err := w.List(w.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.Fatal(err)
	}
	var found []string
	for _, e := range list.Items {
		if e.Regarding.Name == name {
			found = append(found, e.Type+" "+e.Reason)
		}
	}
	slices.Sort(found)
	return found
}

func TestNothingToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	db := w.create("orders")
	w.ready("orders")
	w.settle()
	before := w.catalog(db.Spec.Name)
	secret := w.secret("orders")
	for i := range 100 {
		w.settleQuick(func() { w.touch("orders", fmt.Sprint(i)) })
	}
	w.requests.take()
	w.trips.take()
	w.touch("orders", "last")
	w.settle()
	reads, writes := w.requests.take()
	if trips := w.trips.take(); len(trips) != 1 || len(writes) > 0 || len(reads) > 1 {
		t.Errorf("a reconcile with nothing to do: round trips %q, reads %q, writes %q", trips, reads, writes)
	}
	if diff := cmp.Diff(before, w.catalog(db.Spec.Name)); diff != "" {
		t.Errorf("catalog rows were rewritten: %s", diff)
	}
	if after := w.secret("orders"); after.ResourceVersion != secret.ResourceVersion {
		t.Error("the Secret was written")
	}
}

// settleQuick runs f and waits until the controller has sent a statement.
func (w *world) settleQuick(f func()) {
	w.Helper()
	n := w.trips.total()
	f()
	w.eventually("a reconcile", func() bool { return w.trips.total() > n })
}

// touch asks for a reconcile as a person does.
func (w *world) touch(name, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileAnnotation, value)
	db := &v1alpha1.Database{}
	db.Namespace, db.Name = w.namespace, name
	if err := w.Patch(w.Context(), db, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.Fatal(err)
	}
}

func (w *world) catalog(name string) [][]string {
	w.Helper()
	return w.query(fmt.Sprintf(`SELECT 'role', xmin::text FROM pg_authid WHERE rolname = '%[1]s'
		UNION ALL SELECT 'database', xmin::text FROM pg_database WHERE datname = '%[1]s'
		UNION ALL SELECT 'comment', s.xmin::text FROM pg_shdescription s, pg_roles r WHERE r.oid = s.objoid AND r.rolname = '%[1]s'
		UNION ALL SELECT 'member', m.xmin::text FROM pg_auth_members m, pg_roles r WHERE r.oid = m.roleid AND r.rolname = '%[1]s' ORDER BY 1, 2`, name))
}

func TestRetain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	db := w.create("orders")
	w.ready("orders")
	w.mustLogIn("orders", "CREATE TABLE t (i int)", "INSERT INTO t VALUES (42)")
	w.settle()
	w.trips.take()
	w.delete("orders")
	w.gone("orders")
	w.settle()
	if trips := w.trips.take(); len(trips) > 0 {
		t.Errorf("Retain sent %q", trips)
	}
	if role, database := w.exists(db.Spec.Name); !role || !database {
		t.Errorf("Retain left role %v, database %v", role, database)
	}
	// The same namespace may take it again, under any name.
	w.create("orders-again", specName(db.Spec.Name), deletePolicy)
	w.ready("orders-again")
	w.mustLogIn("orders-again", "SELECT i FROM t")
}

func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.LoginInterval = time.Second
	w.options.Settings.Resync = 2 * time.Second
	w.start()
	name := w.create("orders", func(db *v1alpha1.Database) { db.Spec.ConnectionLimit = 7 }).Spec.Name
	w.ready("orders")
	first := w.secret("orders")
	limitIs := func(n string) func() bool {
		return func() bool {
			return w.query("SELECT rolconnlimit FROM pg_roles WHERE rolname = '" + name + "'")[0][0] == n
		}
	}
	w.eventually("the limit is set", limitIs("7"))
	w.sql("ALTER ROLE " + name + " CONNECTION LIMIT 9")
	w.eventually("the limit is put back", limitIs("7"))
	update(w, "orders", &v1alpha1.Database{}, func(db *v1alpha1.Database) { db.Spec.ConnectionLimit = 0 })
	w.eventually("the limit is taken away", limitIs("-1"))

	w.sql("ALTER ROLE " + name + " NOLOGIN")
	w.eventually("the role may log in again", func() bool { return w.logIn(first) == nil })
	w.sql("ALTER ROLE " + name + " PASSWORD 'changed by hand'")
	w.eventually("the Secret's password is set again", func() bool { return w.logIn(first) == nil })
	w.sql("GRANT CONNECT ON DATABASE " + name + " TO PUBLIC")
	w.eventually("PUBLIC is out again", func() bool {
		return len(w.query("SELECT 1 FROM pg_database, aclexplode(datacl) WHERE datname = '"+name+"' AND grantee = 0")) == 0
	})

	if events := w.events("orders"); len(events) > 0 {
		t.Errorf("events: %q", events)
	}
	w.sql("DROP DATABASE " + name + " WITH (FORCE)")
	w.eventually("the database is there again", func() bool { return w.logIn(first) == nil })
	if diff := cmp.Diff([]string{"Warning DatabaseRecreated"}, w.events("orders")); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.sql("DROP DATABASE "+name+" WITH (FORCE)", "DROP ROLE "+name)
	w.eventually("both are there again", func() bool { return w.logIn(first) == nil })
	if now := w.secret("orders"); now.UID != first.UID || string(now.Data["password"]) != string(first.Data["password"]) {
		t.Error("the Secret changed")
	}
}

func TestPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	pause := func(db *v1alpha1.Database) { db.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"} }
	resume := func(db *v1alpha1.Database) { delete(db.Annotations, v1alpha1.PausedAnnotation) }
	name := w.create("orders", pause, deletePolicy).Spec.Name
	paused := func() bool {
		db := &v1alpha1.Database{}
		w.get("orders", db)
		return apimeta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionPaused)
	}
	w.eventually("a condition says so", paused)
	w.settle()
	db := &v1alpha1.Database{}
	w.get("orders", db)
	if role, _ := w.exists(name); role || len(db.Finalizers) > 0 || w.secret("orders") != nil || w.trips.total() > 0 {
		t.Errorf("something was done: finalizers %v", db.Finalizers)
	}
	update(w, "orders", db, resume)
	w.ready("orders")
	w.eventually("the condition is gone", func() bool { return !paused() })
	update(w, "orders", db, pause)
	w.eventually("paused again", paused)
	w.delete("orders")
	w.settle()
	if role, database := w.exists(name); !role || !database {
		t.Error("dropped while paused")
	}
	update(w, "orders", db, resume)
	w.gone("orders")
	if role, database := w.exists(name); role || database {
		t.Error("not dropped after the pause")
	}
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()

	t.Run("the Secret first", func(t *testing.T) {
		name := w.create("first", deletePolicy).Spec.Name
		w.ready("first")
		if err := w.Client.Delete(w.Context(), w.secret("first")); err != nil {
			t.Fatal(err)
		}
		w.delete("first")
		w.gone("first")
		if role, database := w.exists(name); role || database {
			t.Errorf("left: role %v, database %v", role, database)
		}
	})
	t.Run("role and database dropped by hand before", func(t *testing.T) {
		name := w.create("by-hand", deletePolicy).Spec.Name
		w.ready("by-hand")
		w.sql("DROP DATABASE "+name, "DROP ROLE "+name)
		w.delete("by-hand")
		w.gone("by-hand")
	})
	t.Run("nothing is created while another finalizer holds it", func(t *testing.T) {
		name := w.create("held", deletePolicy, func(db *v1alpha1.Database) { db.Finalizers = []string{"example.com/other"} }).Spec.Name
		w.ready("held")
		w.delete("held")
		w.eventually("our finalizer is gone", func() bool {
			db := &v1alpha1.Database{}
			w.get("held", db)
			return len(db.Finalizers) == 1
		})
		w.touch("held", "again")
		w.settle()
		if role, database := w.exists(name); role || database {
			t.Errorf("there is role %v, database %v", role, database)
		}
	})
	t.Run("never reconciled, deleted at once", func(t *testing.T) {
		w.create("brief", deletePolicy)
		w.delete("brief")
		w.gone("brief")
	})
}

func TestDropBlockedAndDependents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.create("orders", deletePolicy).Spec.Name
	w.ready("orders")
	w.mustLogIn("orders", "BEGIN", "CREATE TABLE t (i int)", "PREPARE TRANSACTION '"+name+"'")
	w.delete("orders")
	w.wait("orders", v1alpha1.ReasonDropBlocked)
	if got := w.message("orders"); !strings.Contains(got, "prepared transaction '"+name+"'") {
		t.Errorf("message %q doesn't name the prepared transaction", got)
	}
	if diff := cmp.Diff([]string{"Warning DropBlocked"}, w.events("orders")); diff != "" {
		t.Error(diff)
	}
	// The way out.
	update(w, "orders", &v1alpha1.Database{}, func(db *v1alpha1.Database) { db.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
	w.gone("orders")
	if _, database := w.exists(name); !database {
		t.Error("Retain dropped the database")
	}

	other := w.create("billing", deletePolicy).Spec.Name
	w.ready("billing")
	w.sql("CREATE TABLE t_"+other+" (i int)", "GRANT SELECT ON t_"+other+" TO "+other)
	w.delete("billing")
	w.wait("billing", v1alpha1.ReasonRoleHasDependents)
	if got := w.message("billing"); !strings.Contains(got, "in: postgres.") {
		t.Errorf("message %q doesn't name the database", got)
	}
	w.sql("DROP TABLE t_" + other)
	w.touch("billing", "now")
	w.gone("billing")
	if role, _ := w.exists(other); role {
		t.Error("the role is left")
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Settings.Postgres = nil
	w.start()
	w.create("orders", deletePolicy)
	w.wait("orders", v1alpha1.ReasonNoServer)
	w.delete("orders")
	w.settle()
	update(w, "orders", &v1alpha1.Database{}, func(db *v1alpha1.Database) { db.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
	w.gone("orders")
}
