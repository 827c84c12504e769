package shared_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// TestTwoOfOneName: two namespaces name one database; one gets it, and deleting the other does nothing to it.
func TestTwoOfOneName(t *testing.T) {
	t.Parallel()
	winner, loser := newWorld(t), newWorld(t)
	winner.start()
	loser.start()
	name := winner.create("orders", deletePolicy).Spec.Name
	winner.ready("orders")
	loser.create("orders", specName(name), deletePolicy)
	loser.wait("orders", v1alpha1.ReasonNameConflict)
	if got, want := loser.message("orders"), fmt.Sprintf("The name %q is taken by a Database of another namespace. Make another Database with another spec.name.", name); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if message := loser.message("orders"); strings.Contains(message, winner.namespace+"/") {
		t.Errorf("message %q names another tenant's resource", message)
	}
	if loser.secret("orders") != nil {
		t.Error("the loser has a Secret")
	}
	loser.delete("orders")
	loser.goneWithin("orders", 5*time.Second)
	winner.mustLogIn("orders")
	winner.touch("orders", "now")
	winner.ready("orders")
	winner.mustLogIn("orders")
}

// TestHeir: the next of the name goes on as soon as the holder is gone.
func TestHeir(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.create("first").Spec.Name
	w.ready("first")
	w.mustLogIn("first", "CREATE TABLE t (i int)")
	w.create("second", specName(name))
	w.wait("second", v1alpha1.ReasonNameConflict)
	if got, want := w.message("second"), fmt.Sprintf("The name %q is taken by the Database \"first\" (postgres.example.com). Make another Database with another spec.name.", name); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	time.Sleep(9 * time.Second) // the second's own next try is now many seconds away: 0.25, 0.5, 1, 2, 4, 8
	w.delete("first")           // Retain: the data stays, and the second of the same namespace takes it over
	start := time.Now()
	w.ready("second")
	if waited := time.Since(start); waited > 5*time.Second {
		t.Errorf("the second went on after %s: the deletion didn't wake it", waited)
	}
	w.mustLogIn("second", "SELECT * FROM t")

	// Not from another namespace, though the holder is gone.
	w.delete("second")
	w.gone("second")
	other := newWorld(t)
	other.start()
	other.create("third", specName(name))
	other.wait("third", v1alpha1.ReasonNameConflict)
}

// TestTwoClusters: two clusters, each with a controller, share one server.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	here, there := newWorld(t), newWorld(t).inSecondCluster()
	here.start()
	there.start()
	name := here.create("orders", deletePolicy).Spec.Name
	here.ready("orders")
	there.create("orders", specName(name), deletePolicy)
	there.wait("orders", v1alpha1.ReasonNameConflict)
	if got := there.message("orders"); !strings.Contains(got, "a Database of another Kubernetes cluster") {
		t.Errorf("message %q", got)
	}
	there.delete("orders")
	there.gone("orders")
	here.mustLogIn("orders")

	// Also when the holder is gone: nobody here can know whether the other cluster's resource is.
	retained := here.create("retained").Spec.Name
	here.ready("retained")
	here.delete("retained")
	here.gone("retained")
	there.create("retained", specName(retained))
	there.wait("retained", v1alpha1.ReasonNameConflict)
}

// TestByHand: what an administrator made is left alone until it is handed over, as the message says.
func TestByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.name("by-hand")
	w.sql("CREATE ROLE "+name+" LOGIN PASSWORD 'by hand'", "CREATE DATABASE "+name+" OWNER "+name)
	before := w.catalog(name)
	w.create("orders", specName(name), deletePolicy)
	w.wait("orders", v1alpha1.ReasonAlreadyExists)
	w.settle()
	if fmt.Sprint(before) != fmt.Sprint(w.catalog(name)) || w.secret("orders") != nil {
		t.Error("something was written")
	}
	_, statement, found := strings.Cut(w.message("orders"), "run: ")
	if !found {
		t.Fatalf("message %q has no statement", w.message("orders"))
	}
	w.sql(statement)
	w.touch("orders", "now")
	w.wait("orders", v1alpha1.ReasonInsufficientPrivilege) // the weak admin may not manage a superuser's role
	_, statement, _ = strings.Cut(w.message("orders"), "run: ")
	w.sql(statement)
	w.touch("orders", "again")
	w.ready("orders")
	w.mustLogIn("orders")
	w.delete("orders")
	w.gone("orders")
	if role, database := w.exists(name); role || database {
		t.Error("not dropped after the hand-over")
	}
}

func TestNameReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("admin", specName("weak_admin"), deletePolicy)
	w.wait("admin", v1alpha1.ReasonNameReserved)
	if got, want := w.message("admin"), `"weak_admin" is the controller's own role in PostgreSQL. Make another Database with another spec.name.`; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	w.delete("admin")
	w.gone("admin")
	if role, _ := w.exists("weak_admin"); !role {
		t.Error("the admin dropped itself")
	}
}
