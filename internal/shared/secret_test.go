package shared_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/databases/api/postgres/v1alpha1"
)

const managedBy = "app.kubernetes.io/managed-by"

func TestSecretDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("orders")
	w.ready("orders")
	old := w.secret("orders")
	w.settle()
	w.trips.take()
	if err := w.Client.Delete(w.Context(), old); err != nil {
		t.Fatal(err)
	}
	w.eventually("a new Secret", func() bool { return w.secret("orders") != nil })
	w.settle()
	w.mustLogIn("orders")
	if err := w.logIn(old); err == nil {
		t.Error("the old password still logs in")
	}
	alters := 0
	for _, trip := range w.trips.take() {
		if strings.Contains(trip, "ALTER ROLE") {
			alters++
		}
	}
	if alters != 1 {
		t.Errorf("the password was set %d times, want once", alters)
	}
	if events := w.events("orders"); len(events) > 0 {
		t.Errorf("events: %q", events)
	}
}

// TestSecretDeletedMeanwhile deletes the Secret between the controller's read and its apply.
func TestSecretDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("another takes its place: %v", replaced), func(t *testing.T) {
			w := newWorld(t)
			w.start()
			w.create("orders")
			w.ready("orders")
			w.settle()
			old := w.secret("orders")
			fired := false
			w.requests.intercept(func(req *http.Request) error {
				if req.Method != http.MethodPatch || !strings.HasSuffix(req.URL.Path, "/secrets/orders-postgres") || fired {
					return nil
				}
				fired = true
				if err := w.Client.Delete(w.Context(), w.secret("orders")); err != nil {
					t.Error(err)
				}
				if replaced {
					other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders-postgres",
						Labels: map[string]string{managedBy: "databases"}}, Data: map[string][]byte{"password": []byte("the replacement's password")}}
					if err := w.Client.Create(w.Context(), other); err != nil {
						t.Error(err)
					}
				}
				return nil
			}, nil)
			update(w, "orders-postgres", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["host"] = []byte("elsewhere") })
			w.eventually("a new Secret", func() bool { s := w.secret("orders"); return s != nil && s.UID != old.UID && len(s.Data["uri"]) > 0 })
			w.settle()
			w.ready("orders")
			w.mustLogIn("orders")
			now := w.secret("orders")
			if string(now.Data["password"]) == string(old.Data["password"]) {
				t.Error("the old password came back")
			}
			if replaced && string(now.Data["password"]) != "the replacement's password" {
				t.Error("the replacement's password wasn't taken")
			}
			if err := w.logIn(old); err == nil {
				t.Error("the old password still logs in")
			}
		})
	}
}

func TestSecretEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("orders")
	w.ready("orders")
	first := w.secret("orders")
	edit := func(change func(*corev1.Secret)) { update(w, "orders-postgres", &corev1.Secret{}, change) }

	edit(func(s *corev1.Secret) { s.Data["password"] = []byte("chosen by 'a' person, %41 \"\\") })
	w.eventually("the new password is everywhere", func() bool {
		s := w.secret("orders")
		return string(s.Data["password"]) != string(first.Data["password"]) && string(s.Data["uri"]) != string(first.Data["uri"]) && w.logIn(s) == nil
	})
	if w.logIn(first) == nil {
		t.Error("the old password still logs in")
	}
	edit(func(s *corev1.Secret) {
		s.Data["host"], s.Data["username"], s.Data["extra"] = []byte("elsewhere"), []byte("somebody"), []byte("mine")
		delete(s.Data, "uri")
		delete(s.Labels, managedBy)
		s.OwnerReferences = nil
	})
	w.touch("orders", "now") // without its label the Secret isn't watched any more
	if db := w.wait("orders", v1alpha1.ReasonSecretConflict); db.Status.SecretName != "" || db.Status.Binding.Name != "" {
		t.Errorf("the status still names a Secret that isn't the Database's: %+v", db.Status)
	}
	edit(func(s *corev1.Secret) { s.Labels = map[string]string{managedBy: "databases"} })
	w.touch("orders", "again")
	w.eventually("all is put back", func() bool {
		s := w.secret("orders")
		return string(s.Data["host"]) == w.server.Host() && len(s.Data["uri"]) > 0 && len(s.OwnerReferences) == 1
	})
	if s := w.secret("orders"); string(s.Data["extra"]) != "mine" || s.UID != first.UID {
		t.Errorf("keys %v: another's key is kept, and so is the Secret", s.Data)
	}
	edit(func(s *corev1.Secret) { delete(s.Labels, managedBy) }) // still controlled by the Database
	w.touch("orders", "label")
	w.eventually("the label is back", func() bool { return w.secret("orders").Labels[managedBy] == "databases" })
	if s := w.secret("orders"); string(s.Data["password"]) != "chosen by 'a' person, %41 \"\\" {
		t.Error("a Secret that the cache didn't show was rotated") // only a live NotFound makes a password
	}
	for _, empty := range []func(*corev1.Secret){
		func(s *corev1.Secret) { s.Data["password"] = nil },
		func(s *corev1.Secret) { delete(s.Data, "password") },
		func(s *corev1.Secret) { s.Data = nil },
	} {
		before := w.secret("orders")
		edit(empty)
		w.eventually("a new password", func() bool {
			s := w.secret("orders")
			return len(s.Data["password"]) > 0 && string(s.Data["password"]) != string(before.Data["password"]) && w.logIn(s) == nil
		})
	}
	w.ready("orders")
}

func TestSecretConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders-postgres"},
		Data: map[string][]byte{"password": []byte("not yours")}}
	if err := w.Client.Create(w.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	name := w.create("orders").Spec.Name
	w.wait("orders", v1alpha1.ReasonSecretConflict)
	if got, want := w.message("orders"), `A Secret "orders-postgres" exists that isn't this Database's. Delete or rename it, or make the Database under another metadata.name.`; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	w.settle()
	if now := w.secret("orders"); now.ResourceVersion != foreign.ResourceVersion {
		t.Error("another's Secret was written")
	}
	if role, _ := w.exists(name); role {
		t.Error("a role was made with another's password")
	}
	if err := w.Client.Delete(w.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.touch("orders", "now")
	w.ready("orders")
	w.mustLogIn("orders")
}

// TestSecretMadeMeanwhile: another makes a Secret of the name between the read that found none and the apply.
func TestSecretMadeMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders-postgres"},
		Data: map[string][]byte{"mine": []byte("mine")}}
	fired := false
	w.requests.intercept(func(req *http.Request) error {
		if req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/secrets/orders-postgres") && !fired {
			fired = true
			return w.Client.Create(w.Context(), foreign)
		}
		return nil
	}, nil)
	w.start()
	w.create("orders")
	w.wait("orders", v1alpha1.ReasonSecretConflict)
	if now := w.secret("orders"); now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("another's Secret was written: %v", now)
	}
}

// TestRestoredBackup: Secrets and Databases come back under new uids, with what the old ones left in PostgreSQL. In a
// cluster whose garbage collector isn't faster than the controller.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t).inSecondCluster()
	w.start()
	name := w.create("orders").Spec.Name
	w.ready("orders")
	w.mustLogIn("orders", "CREATE TABLE t (i int)")
	backup := w.secret("orders")
	w.delete("orders")
	w.gone("orders")
	w.stop()
	if err := w.Client.Delete(w.Context(), w.secret("orders")); err != nil {
		t.Fatal(err)
	}

	backup.ResourceVersion, backup.UID, backup.Type, backup.ManagedFields = "", "", corev1.SecretTypeOpaque, nil
	if err := w.Client.Create(w.Context(), backup); err != nil {
		t.Fatal(err)
	}
	restored := w.create("orders", specName(name))
	w.start()
	w.ready("orders")
	w.mustLogIn("orders", "SELECT * FROM t")
	secret := w.secret("orders")
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != restored.UID {
		t.Errorf("owners %+v", secret.OwnerReferences)
	}
	if secret.UID != backup.UID || secret.Type != corev1.SecretTypeOpaque || string(secret.Data["password"]) != string(backup.Data["password"]) {
		t.Errorf("the restored Secret lost its type %s or its password", secret.Type)
	}
}

// TestUnreadableSecret: an error that isn't NotFound makes no password and no SQL.
func TestUnreadableSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.requests.intercept(func(req *http.Request) error {
		if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/secrets/") {
			return errors.New("the network is down")
		}
		return nil
	}, nil)
	w.start()
	name := w.create("orders").Spec.Name
	w.wait("orders", v1alpha1.ReasonSecretApplyFailed)
	if got, want := w.message("orders"), "The Secret could not be read."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if role, _ := w.exists(name); role || w.trips.total() > 0 {
		t.Error("SQL was sent without the Secret")
	}
	w.requests.intercept(nil, nil)
	w.touch("orders", "now")
	w.ready("orders")
	w.mustLogIn("orders")
}

func TestPasswordRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.create("orders")
	w.ready("orders")
	update(w, "orders-postgres", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["password"] = []byte("nul\x00byte") })
	w.wait("orders", v1alpha1.ReasonPasswordRejected)
	if got, want := w.message("orders"), "The Secret's password can't be used: the password has a NUL byte. Delete the Secret to get a new one."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if err := w.Client.Delete(w.Context(), w.secret("orders")); err != nil {
		t.Fatal(err)
	}
	w.ready("orders")
	w.mustLogIn("orders")
}
