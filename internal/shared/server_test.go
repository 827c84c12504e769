package shared_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestServerDown: one fault of the server is one fault, and not one for each Database.
func TestServerDown(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 16})
	w := newWorldOn(t, server, server.SuperuserDSN())
	w.options.Settings.Resync = 10 * time.Second
	w.start()
	const n = 200
	for i := range n {
		w.create(fmt.Sprintf("db-%d", i), deletePolicy)
	}
	for i := range n {
		w.ready(fmt.Sprintf("db-%d", i))
	}
	retained := w.create("retained").Spec.Name
	w.ready("retained")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		w.wait(fmt.Sprintf("db-%d", i), v1alpha1.ReasonPostgresUnavailable)
	}
	w.trips.take()
	start := time.Now()
	time.Sleep(5 * time.Second)
	trips := w.trips.take()
	if limit := int(time.Since(start).Seconds()) + 3; len(trips) > limit {
		t.Errorf("%d attempts at a server that is down in %s, want at most %d", len(trips), time.Since(start), limit)
	}
	w.delete("retained") // needs no server
	w.gone("retained")
	w.delete("db-0") // waits for it
	if errors := strings.Count(w.log.String(), "reconcile failed") + strings.Count(w.log.String(), "Reconciler error"); errors > 0 {
		t.Errorf("%d reconciles count as failed", errors)
	}
	if lines := strings.Count(w.log.String(), `"level":"ERROR"`); lines > 3 {
		t.Errorf("%d records at level ERROR for one fault:\n%s", lines, w.log)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < n; i++ {
		w.ready(fmt.Sprintf("db-%d", i))
	}
	w.gone("db-0")
	if role, database := w.exists(retained); !role || !database {
		t.Error("Retain dropped something")
	}
	want := []string{"Normal Provisioned", "Warning PostgresUnavailable"}
	if diff := cmp.Diff(want, w.events("db-7")); diff != "" {
		t.Errorf("events of one of many: %s", diff)
	}
}

// TestShutdown: a reconcile in flight ends what it began.
func TestShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	w.requests.intercept(func(req *http.Request) error {
		if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/secrets/") {
			close(began)
			time.Sleep(time.Second)
		}
		return nil
	}, nil)
	w.start()
	w.create("orders")
	<-began
	w.stop()
	db := &v1alpha1.Database{}
	w.get("orders", db)
	if !apimeta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("the reconcile was cut off: %+v", db.Status)
	}
	w.mustLogIn("orders")
}
