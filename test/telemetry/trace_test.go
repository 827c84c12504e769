package telemetry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// names are a trace's spans below its root, in order.
func names(all []*trace.Span) []string {
	var names []string
	for _, span := range all {
		if len(span.ParentSpanId) > 0 {
			names = append(names, span.Name)
		}
	}
	return names
}

func has(all []*trace.Span, name string) bool {
	for _, span := range all {
		if span.Name == name {
			return true
		}
	}
	return false
}

// TestTraces reads the whole trace of a Database's first reconcile, of one that finds nothing to do, and of a deletion.
func TestTraces(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, sharedServer, sharedDSN, toReceiver(r))
	w.start()
	w.create("orders")
	w.ready("orders")
	of := func(statement string) []*trace.Span {
		t.Helper()
		var all []*trace.Span
		w.eventually("the trace with "+statement, func() bool {
			all = r.traceOf(func(_ *trace.Span, all []*trace.Span) bool { return has(all, statement) })
			return all != nil
		})
		checkSpans(t, w, all)
		return all
	}
	first := of("CREATE ROLE")
	want := []string{"PATCH", "GET", "SELECT pg_roles pg_database", "CREATE ROLE", "COMMENT ROLE", "GRANT ROLE", "CREATE DATABASE",
		"REVOKE DATABASE", "ALTER DATABASE", "SELECT pg_roles pg_database", "PATCH", "PATCH"}
	if diff := cmp.Diff(want, names(first)); diff != "" {
		t.Errorf("the first reconcile: %s", diff)
	}
	var settled []*trace.Span
	w.eventually("a trace of a reconcile that finds nothing to do", func() bool {
		w.touch("orders")
		settled = r.traceOf(func(_ *trace.Span, all []*trace.Span) bool { return len(all) == 2 })
		return settled != nil
	})
	checkSpans(t, w, settled)
	if diff := cmp.Diff([]string{"SELECT pg_roles pg_database"}, names(settled)); diff != "" {
		t.Errorf("a settled Database: %s", diff)
	}
	db := &v1alpha1.Database{}
	w.get("orders", db)
	if err := w.Delete(w.Context(), db); err != nil {
		t.Fatal(err)
	}
	w.eventually("orders is gone", func() bool {
		return apierrors.IsNotFound(w.Get(w.Context(), client.ObjectKeyFromObject(db), db))
	})
	want = []string{"SELECT pg_roles pg_database", "ALTER ROLE", "ALTER DATABASE", "DROP DATABASE", "DROP ROLE", "PATCH"}
	if diff := cmp.Diff(want, names(of("DROP DATABASE"))); diff != "" {
		t.Errorf("the deletion: %s", diff)
	}
	w.stop()
	checkRecords(t, w, r, first[0])
}

// checkSpans compares parents and attributes of a whole trace.
func checkSpans(t *testing.T, w *world, all []*trace.Span) {
	t.Helper()
	root := all[0]
	want := "databases.kind=shared,databases.ready.reason=Provisioned,humus.kube.object.name=orders,k8s.namespace.name=" + w.namespace
	got := attributes(root.Attributes)
	if has(all, "DROP DATABASE") { // nothing is left to be Ready
		want = strings.Replace(want, "databases.ready.reason=Provisioned,", "", 1)
	}
	if root.Name != "reconcile Database" || got != want || len(root.ParentSpanId) != 0 || root.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
		t.Errorf("the root: %q, %s, %v; want the attributes %s", root.Name, got, root.Status, want)
	}
	for _, span := range all[1:] {
		if string(span.ParentSpanId) != string(root.SpanId) || span.StartTimeUnixNano < root.StartTimeUnixNano || span.EndTimeUnixNano > root.EndTimeUnixNano {
			t.Errorf("%q isn't within the root", span.Name)
		}
		switch method := value(span.Attributes, "http.request.method"); method {
		case "":
			operation, _, _ := strings.Cut(span.Name, " ")
			want := fmt.Sprintf("db.operation.name=%s,db.query.summary=%s,db.system.name=postgresql", operation, span.Name)
			got := strings.Replace(attributes(span.Attributes), "db.operation.batch.size=,", "", 1)
			if got != want || span.Kind != trace.Span_SPAN_KIND_CLIENT {
				t.Errorf("%q: %s, want %s", span.Name, got, want)
			}
		default:
			url := value(span.Attributes, "url.full")
			if span.Name != method || strings.Contains(url, "?") || !strings.Contains(url, "/namespaces/"+w.namespace+"/") || span.Kind != trace.Span_SPAN_KIND_CLIENT {
				t.Errorf("%q: %s", span.Name, attributes(span.Attributes))
			}
		}
	}
}

// checkRecords looks for the first reconcile's record, at standard error and at the receiver, and at what the resource
// says.
func checkRecords(t *testing.T, w *world, r *receiver, root *trace.Span) {
	t.Helper()
	found := false
	for line := range strings.Lines(w.stderr.String()) {
		if strings.Contains(line, `"msg":"changed"`) && strings.Contains(line, fmt.Sprintf(`"trace_id":"%x","span_id":"%x"`, root.TraceId, root.SpanId)) {
			found = true
		}
	}
	if !found {
		t.Errorf("no record of the first reconcile with its trace at standard error:\n%s", w.stderr)
	}
	found = false
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.logs {
		if record.Body.GetStringValue() == "changed" && string(record.TraceId) == string(root.TraceId) && string(record.SpanId) == string(root.SpanId) {
			found = true
		}
	}
	if !found {
		t.Errorf("no record of the first reconcile among %d exported ones", len(r.logs))
	}
	for _, resource := range r.resources {
		for key, want := range map[string]string{"service.name": "databases", "service.version": "test", "service.instance.id": "databases-0",
			"k8s.pod.name": "databases-0", "k8s.namespace.name": "databases"} {
			if got := value(resource.Attributes, key); got != want {
				t.Fatalf("the resource's %s is %q, want %q", key, got, want)
			}
		}
	}
	for _, span := range r.spans {
		if len(span.ParentSpanId) == 0 && span.Name != "reconcile Database" {
			t.Errorf("a root span %q, of nobody's reconcile", span.Name)
		}
	}
}
