package shared_test

import (
	"net/url"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestURLs logs in with the Secret's URLs through the real libpq and the real JDBC driver, with passwords of every
// printable character.
func TestURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.create("My-App", func(db *v1alpha1.Database) { db.Name, db.Spec.Name = "my-app", "My-App_"+w.name("x") }).Spec.Name
	w.ready("my-app")
	var ascii strings.Builder
	for c := ' '; c <= '~'; c++ {
		ascii.WriteRune(c)
	}
	var urls []string
	for _, password := range []string{ascii.String(), "%41%zz+ +", "пароль ß", "postgres://a:b@c/d?e=f#g", " leading and trailing "} {
		update(w, "my-app-postgres", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["password"] = []byte(password) })
		w.eventually("the password is set", func() bool { return w.logIn(w.secret("my-app")) == nil && readBack(t, w.secret("my-app"), password) })
		secret := w.secret("my-app")
		cmd := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "-tAc", "SELECT current_user || ' ' || current_database()", string(secret.Data["uri"]))
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != name+" "+name {
			t.Errorf("psql with the password %q: %v: %s", password, err, out)
		}
		// One login a password, because each edit ends the one before.
		urls = []string{string(secret.Data["jdbc-url"])}
		for _, login := range postgrestest.JDBCConnect(t, urls...) {
			if login.User != name || login.Database != name {
				t.Errorf("JDBC with the password %q: %+v", password, login)
			}
		}
	}
}

// readBack reports whether net/url finds the password in the Secret's uri.
func readBack(t *testing.T, secret *corev1.Secret, password string) bool {
	t.Helper()
	u, err := url.Parse(string(secret.Data["uri"]))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := u.User.Password()
	return got == password
}
