//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// TestPassword: an edited one works, a missing or empty one is made once, and a look at what is right alters nothing.
func TestPassword(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("secret", func(db *databasev1.Database) {
		db.Spec.Parameters = map[string]databasev1.ParameterValue{"log_statement": "all"}
	})
	w.settled("secret")

	secret := w.secret("secret")
	secret.Data["password"] = []byte("edited by hand ä'\"\\")
	if err := w.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.eventually("the edited password works", func() bool {
		got, err := w.trySQL("secret", "SELECT 1;")
		return err == nil && got == "1" && strings.Contains(string(w.secret("secret").Data["uri"]), "edited%20by%20hand")
	})
	for what, change := range map[string]func(){
		"empty": func() {
			secret := w.secret("secret")
			secret.Data["password"] = nil
			if err := w.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		},
		"missing": func() {
			if err := w.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "secret-credentials"}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		before := w.secret("secret").Data["password"]
		change()
		var uri string
		w.eventually("a new password works where it was "+what, func() bool {
			secret := &corev1.Secret{}
			if w.Get(t.Context(), key(w.namespace, "secret-credentials"), secret) != nil || len(secret.Data["password"]) == 0 {
				return false
			}
			uri = string(secret.Data["uri"])
			got, err := w.psql(uri, "SELECT 1;")
			return string(secret.Data["password"]) != string(before) && err == nil && got == "1"
		})
		time.Sleep(2 * time.Second)
		if now := string(w.secret("secret").Data["uri"]); now != uri {
			t.Errorf("where it was %s, a second new password was made", what)
		}
	}

	w.settled("secret")
	altered := func() int { return strings.Count(w.kubectl("logs", "secret-0", "-c", "postgres"), "ALTER ROLE") }
	before := altered()
	for i := range 20 {
		w.change("secret", func(db *databasev1.Database) {
			db.Annotations = map[string]string{databasev1.ReconcileAnnotation: strings.Repeat("x", i+1)}
		})
		time.Sleep(100 * time.Millisecond)
	}
	w.settled("secret")
	if after := altered(); after != before || before == 0 {
		t.Errorf("%d ALTER ROLE before twenty looks, %d after", before, after)
	}
	logs := w.kubectl("logs", "secret-0", "-c", "postgres")
	for _, password := range []string{string(w.secret("secret").Data["password"]), "edited by hand"} {
		if strings.Contains(logs, password) {
			t.Error("a password is in the server's log")
		}
	}
}

// TestSuperuserSecret: when it is deleted, new passwords are made and set, and the application doesn't notice.
func TestSuperuserSecret(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("super")
	w.ready("super")
	pods := w.pods("super")
	secret := &corev1.Secret{}
	w.get("super-superuser", secret)
	if err := w.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.eventually("there is a new Secret", func() bool {
		again := &corev1.Secret{}
		return w.Get(t.Context(), key(w.namespace, "super-superuser"), again) == nil && again.UID != secret.UID &&
			string(again.Data[launcher.KeySuperuser]) != string(secret.Data[launcher.KeySuperuser])
	})
	w.change("super", func(db *databasev1.Database) {
		db.Annotations = map[string]string{databasev1.ReconcileAnnotation: "1"}
	})
	// The kubelet brings a changed Secret into a pod within a minute or two.
	w.eventually("the new superuser's password works", func() bool {
		again := &corev1.Secret{}
		w.get("super-superuser", again)
		got, err := w.psql("postgresql://postgres:"+string(again.Data[launcher.KeySuperuser])+"@super/postgres", "SELECT 1;")
		return err == nil && got == "1"
	})
	w.ready("super")
	if !same(pods, w.pods("super")) {
		t.Errorf("pods restarted: %v, then %v", pods, w.pods("super"))
	}
}

// TestUnreadableSecret: while the Secret can't be read, nothing is changed in PostgreSQL.
func TestUnreadableSecret(t *testing.T) {
	w := newWorld(t)
	var spoil failing
	stop := w.startHere(spoil.wrap)
	w.create("unread", func(db *databasev1.Database) {
		db.Spec.Parameters = map[string]databasev1.ParameterValue{"log_statement": "all"}
	})
	w.settled("unread")
	roles := func() int { return strings.Count(w.kubectl("logs", "unread-0", "-c", "postgres"), " ROLE ") }
	before := roles()
	spoil.set("/secrets/unread-credentials")
	secret := w.secret("unread")
	secret.Data["password"] = []byte("a new password")
	if err := w.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.condition("unread", databasev1.ConditionReady, databasev1.ReasonSecretApplyFailed)
	if after := roles(); after != before {
		t.Errorf("%d statements about roles before, %d after", before, after)
	}
	spoil.set("")
	w.ready("unread")
	if got := w.sql("unread", "SELECT 1;"); got != "1" || string(w.secret("unread").Data["password"]) != "a new password" {
		t.Errorf("psql prints %q; the edited password stayed: %t", got, string(w.secret("unread").Data["password"]) == "a new password")
	}
	stop()
}

// failing spoils the reads of one path.
type failing struct {
	mu   sync.Mutex
	path string
}

func (f *failing) set(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.path = path
}

func (f *failing) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		f.mu.Lock()
		spoilt := f.path != "" && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, f.path)
		f.mu.Unlock()
		if spoilt {
			return nil, context.DeadlineExceeded
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
