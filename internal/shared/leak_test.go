package shared_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

// TestNoPasswordAnywhere collects all that is written for others to read during a life with rotations and failures:
// PostgreSQL's log with log_statement=all, the controller's log, events and statuses.
func TestNoPasswordAnywhere(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Installed: true, Settings: map[string]string{
		"log_statement": "all", "log_min_error_statement": "debug5", "shared_preload_libraries": "passwordcheck"}})
	dsn, err := server.WeakAdmin(t.Context(), "weak_admin")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOn(t, server, dsn)
	w.start()
	var secrets []string
	note := func() { secrets = append(secrets, string(w.secret("orders").Data["password"])) }
	name := w.create("orders", func(db *v1alpha1.Database) { db.Spec.Name = "orders-database-name" }, deletePolicy).Spec.Name
	w.ready("orders")
	note()
	if err := w.Client.Delete(w.Context(), w.secret("orders")); err != nil {
		t.Fatal(err)
	}
	w.eventually("a new Secret", func() bool { s := w.secret("orders"); return s != nil && w.logIn(s) == nil })
	note()
	edit := func(password, reason string) {
		update(w, "orders-postgres", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["password"] = []byte(password) })
		secrets = append(secrets, password)
		w.wait("orders", reason)
	}
	edit("chosen-by-a-person-1", v1alpha1.ReasonProvisioned)
	edit("nul\x00byte-and-more", v1alpha1.ReasonPasswordRejected)
	// The module can refuse a verifier only if it is that of the user's own name.
	update(w, "orders-postgres", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["password"] = []byte(name) })
	w.eventually("the server's refusal", func() bool { return strings.Contains(w.message("orders"), "password rules") })
	edit("chosen-by-a-person-2", v1alpha1.ReasonProvisioned)
	w.eventually("the password is set", func() bool { return w.logIn(w.secret("orders")) == nil })
	w.sql("ALTER ROLE weak_admin NOCREATEDB", `DROP DATABASE "`+name+`" WITH (FORCE)`)
	w.touch("orders", "failing")
	w.wait("orders", v1alpha1.ReasonInsufficientPrivilege)
	if got, want := w.message("orders"), `The admin role "weak_admin" may not run CREATE DATABASE. As a superuser, run: ALTER ROLE "weak_admin" CREATEDB`; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	w.touch("orders", "down")
	w.wait("orders", v1alpha1.ReasonPostgresUnavailable)
	time.Sleep(time.Second)
	written := w.everythingWritten()
	if missing := testenv.FindLeak(written+"\n"+secrets[0][3:11], secrets...); missing == "" {
		t.Fatal("a planted leak isn't found")
	}
	if leak := testenv.FindLeak(written, append(secrets, dsnPassword(t, dsn))...); leak != "" {
		t.Errorf("a piece of a password was written, near: %s", leak)
	}
}

func (w *world) everythingWritten() string {
	w.Helper()
	log, err := w.server.Log()
	if err != nil {
		w.Fatal(err)
	}
	var events eventsv1.EventList
	var databases v1alpha1.DatabaseList
	for _, list := range []client.ObjectList{&events, &databases} {
		if err := w.List(w.Context(), list, client.InNamespace(w.namespace)); err != nil {
			w.Fatal(err)
		}
	}
	objects, err := json.Marshal([]any{events, databases})
	if err != nil {
		w.Fatal(err)
	}
	if len(events.Items) == 0 || !strings.Contains(log, "CREATE ROLE") || w.log.String() == "" {
		w.Fatal("the collection is incomplete")
	}
	return fmt.Sprint(log, w.log.String(), string(objects), w.trips.take())
}

func dsnPassword(t *testing.T, dsn string) string {
	t.Helper()
	_, rest, _ := strings.Cut(dsn, "://weak_admin:")
	password, _, found := strings.Cut(rest, "@")
	if !found {
		t.Fatal("the DSN has another form")
	}
	return password
}
