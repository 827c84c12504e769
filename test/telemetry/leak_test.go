package telemetry_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

// TestNoSecretLeaves collects everything that the program emits in a run with errors of every kind, and looks for pieces
// of every secret that it handles.
func TestNoSecretLeaves(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 17, Settings: map[string]string{"log_statement": "all", "log_min_error_statement": "debug5"}})
	dsn, err := server.WeakAdmin(t.Context(), "weak_admin")
	if err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	env := toReceiver(r)
	header := rand.Text()
	env["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=Bearer%20" + header
	w := newWorld(t, server, dsn, env)
	token := rand.Text() + rand.Text()
	w.settings.Kube.BearerTokenFile = filepath.Join(t.TempDir(), "token") // sent beside the certificate, which counts
	if err := os.WriteFile(w.settings.Kube.BearerTokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	inRecord, inSpan := rand.Text(), rand.Text() // planted, for the search to find
	faults := &faults{plant: inSpan[5:13]}
	w.sql, w.http = faults.intercept, faults.wrap
	w.start()
	secrets := append(w.failInEveryWay(faults), password(t, dsn), header, token, keyOf(t, w.settings.Kube.KeyFile, w.settings.Kube.KeyData))
	w.signals.Logger().Info("planted", "value", inRecord[9:17])
	w.stop()
	everything := w.everything(r)
	for what, found := range map[string]string{
		"standard error": testenv.FindLeak(w.stderr.String(), inRecord), "exported records": testenv.FindLeak(r.everything(), inRecord),
		"spans": testenv.FindLeak(r.everything(), inSpan),
	} {
		if found == "" {
			t.Errorf("a leak planted in %s isn't found", what)
		}
	}
	for _, secret := range secrets {
		if len(secret) < 8 {
			t.Fatal("a secret that is too short to look for")
		}
		if leak := testenv.FindLeak(everything, secret); leak != "" {
			t.Errorf("a piece of a secret was written, near: %s", leak)
		}
	}
}

// failInEveryWay gives the passwords that there were.
func (w *world) failInEveryWay(f *faults) (passwords []string) {
	w.Helper()
	note := func() {
		secret := &corev1.Secret{}
		w.get("orders-postgres", secret)
		passwords = append(passwords, string(secret.Data["password"]))
	}
	edit := func(password, reason string) {
		update(w, "orders-postgres", &corev1.Secret{}, func(s *corev1.Secret) { s.Data["password"] = []byte(password) })
		passwords = append(passwords, password)
		w.wait("orders", reason)
	}
	w.create("orders")
	w.ready("orders")
	note()
	edit("nul\x00byte-"+rand.Text(), v1alpha1.ReasonPasswordRejected)
	edit(rand.Text(), v1alpha1.ReasonProvisioned)
	if err := w.Delete(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders-postgres"}}); err != nil {
		w.Fatal(err)
	}
	w.eventually("a new Secret", func() bool {
		return w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "orders-postgres"}, &corev1.Secret{}) == nil
	})
	note()
	foreign := rand.Text()
	passwords = append(passwords, foreign)
	if err := w.Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "second-postgres"},
		StringData: map[string]string{"password": foreign}}); err != nil {
		w.Fatal(err)
	}
	w.create("second")
	w.wait("second", v1alpha1.ReasonSecretConflict)
	f.api.Store(true)
	w.create("third")
	w.wait("third", v1alpha1.ReasonSecretApplyFailed)
	f.api.Store(false)
	w.ready("third")
	f.panics.Store(true)
	w.touch("orders")
	w.eventually("a panic", func() bool { return !f.panics.Load() })
	dsn, err := os.ReadFile(w.dsnFile)
	if err != nil {
		w.Fatal(err)
	}
	wrong := rand.Text()
	passwords = append(passwords, wrong)
	u, err := url.Parse(strings.TrimSpace(string(dsn)))
	if err != nil {
		w.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), wrong)
	if err := os.WriteFile(w.dsnFile, []byte(u.String()), 0o600); err != nil {
		w.Fatal(err)
	}
	w.eventually("the wrong DSN is used", func() bool {
		w.touch("orders")
		time.Sleep(300 * time.Millisecond)
		db := &v1alpha1.Database{}
		w.get("orders", db)
		return strings.Contains(string(mustJSON(w, db.Status)), "refuses the admin's login")
	})
	if err := os.WriteFile(w.dsnFile, []byte("postgres://weak_admin:"+wrong+"@[broken"), 0o600); err != nil {
		w.Fatal(err)
	}
	w.eventually("the broken DSN is noticed", func() bool { return strings.Contains(w.stderr.String(), "new DSN can't be used") })
	if err := os.WriteFile(w.dsnFile, dsn, 0o600); err != nil {
		w.Fatal(err)
	}
	w.ready("orders")
	if err := w.server.Stop(); err != nil {
		w.Fatal(err)
	}
	w.touch("orders")
	w.wait("orders", v1alpha1.ReasonPostgresUnavailable)
	time.Sleep(time.Second)
	return passwords
}

// faults makes calls fail on demand.
type faults struct {
	api, panics atomic.Bool
	// plant is put into the span of each statement.
	plant string
}

func (f *faults) intercept(ctx context.Context, _ string, call func(context.Context) error) error {
	trace.SpanFromContext(ctx).SetAttributes(attribute.String("planted", f.plant))
	if f.panics.CompareAndSwap(true, false) {
		panic("a planted panic")
	}
	return call(ctx)
}

func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if f.api.Load() && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/secrets/") {
			return nil, errors.New("a planted failure")
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// everything is what the program emitted, and PostgreSQL's own log.
func (w *world) everything(r *receiver) string {
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
	received, stderr := r.everything(), w.stderr.String()
	for what, complete := range map[string]bool{
		"PostgreSQL's log": strings.Contains(log, "CREATE ROLE"), "events": len(events.Items) > 0, "statuses": len(databases.Items) == 3,
		"records": strings.Contains(stderr, "reconcile failed") && strings.Contains(stderr, "panic"), "spans": strings.Contains(received, `"reconcile Database"`),
		"exported records": strings.Contains(received, `"reconcile failed"`), "metrics": strings.Contains(received, `"databases.count"`),
	} {
		if !complete {
			w.Errorf("the collection lacks %s", what)
		}
	}
	return log + stderr + received + string(mustJSON(w, []any{events, databases}))
}

func mustJSON(w *world, value any) []byte {
	w.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		w.Fatal(err)
	}
	return text
}

func password(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN has another form")
	}
	password, _ := u.User.Password()
	return password
}

// keyOf is the secret part of a private key: all but the beginning, which every key of its kind has.
func keyOf(t *testing.T, file string, data []byte) string {
	t.Helper()
	if len(data) == 0 {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	block, _ := pem.Decode(data)
	if block == nil || len(block.Bytes) < 60 {
		t.Fatal("the client's key isn't PEM")
	}
	return base64.StdEncoding.EncodeToString(block.Bytes)[52:]
}
