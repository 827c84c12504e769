package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// traced is a telemetry whose spans the recorder keeps.
func traced(t *testing.T) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	telemetry := &Telemetry{tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer(scope)}
	var err error
	if telemetry.instruments, err = newInstruments(telemetry.meterOrNone()); err != nil {
		t.Fatal(err)
	}
	return telemetry, spans
}

// TestNothingAskedFor: without exporters nothing is put around anything.
func TestNothingAskedFor(t *testing.T) {
	started, err := Start(t.Context(), Options{Stderr: &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	for what, off := range map[string]*Telemetry{"none": nil, "off": started} {
		if off.SQL() != nil || off.HTTP() != nil || off.Controller(KindShared) != nil {
			t.Errorf("%s: something is decorated", what)
		}
		if err := errors.Join(off.Observe(Gauges{}), off.Shutdown(t.Context())); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	var c *Controller
	next := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	if c.Transport(http.DefaultTransport) != http.DefaultTransport {
		t.Error("a transport is decorated")
	}
	c.Reconciler(next)
	c.Concluded(t.Context(), "", nil, nil)
	c.Primary(t.Context(), "", "", "")
	c.Forget("")
	c.Rotated(t.Context())
	c.Repaired(t.Context(), []string{"ALTER ROLE x"})
}

// TestFailedReconcile: the library's record of an error has the name that is documented, and names the span.
func TestFailedReconcile(t *testing.T) {
	telemetry, spans := traced(t)
	var stderr bytes.Buffer
	logger := logr.FromSlogHandler(newHandler(slog.NewJSONHandler(&stderr, nil), nil))
	c := telemetry.Controller(KindShared)
	cause := reconcile.TerminalError(errors.New("the\ncause"))
	_, err := c.Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		log.FromContext(ctx).Info("within")
		return reconcile.Result{}, cause
	})).Reconcile(log.IntoContext(t.Context(), logger), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "orders"}})
	if !errors.Is(err, reconcile.TerminalError(nil)) || err.Error() != cause.Error() {
		t.Errorf("the error became %v", err)
	}
	logger.Error(err, "Reconciler error")
	span := spans.Ended()[0]
	id := `"trace_id":"` + span.SpanContext().TraceID().String() + `","span_id":"` + span.SpanContext().SpanID().String() + `"`
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], id) || !strings.Contains(lines[1], id) || !strings.Contains(lines[1], `"msg":"reconcile failed"`) {
		t.Errorf("records without %s:\n%s", id, stderr.String())
	}
	if span.Status().Code != codes.Error || span.Status().Description != "terminal error: the cause" {
		t.Errorf("the span's status is %+v", span.Status())
	}
}

// TestPanic: a panic goes on, and the span says so.
func TestPanic(t *testing.T) {
	telemetry, spans := traced(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = telemetry.Controller(KindShared).Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			panic("x")
		})).Reconcile(t.Context(), reconcile.Request{})
	}()
	if ended := spans.Ended(); len(ended) != 1 || ended[0].Status().Code != codes.Error {
		t.Errorf("spans: %+v", ended)
	}
}

type answer struct{}

func (answer) Error() string    { return "ERROR: no\nsuch" }
func (answer) SQLState() string { return "42501" }

// TestStatements: spans for statements and not for their frame, none outside a reconcile, and errors with SQLSTATE.
func TestStatements(t *testing.T) {
	telemetry, spans := traced(t)
	sql := telemetry.SQL()
	fail := func(context.Context) error { return answer{} }
	if err := sql(t.Context(), "CONNECT", fail); !errors.Is(err, answer{}) || len(spans.Ended()) > 0 {
		t.Errorf("outside a reconcile: %v, %d spans", err, len(spans.Ended()))
	}
	ctx, root := telemetry.tracer.Start(t.Context(), "root")
	_ = sql(ctx, "BEGIN; SET ROLE; REVOKE DATABASE; ALTER DATABASE; COMMIT", fail)
	_ = sql(ctx, "SET ROLE", fail)
	root.End()
	var names []string
	for _, span := range spans.Ended()[:3] {
		names = append(names, span.Name())
		var codes []string
		for _, a := range span.Attributes() {
			if a.Value.AsString() == "42501" {
				codes = append(codes, string(a.Key))
			}
		}
		if len(codes) != 2 || span.Status().Description != "ERROR: no such" || span.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Errorf("%s: %+v, %v", span.Name(), span.Status(), span.Attributes())
		}
	}
	if diff := cmp.Diff([]string{"REVOKE DATABASE", "ALTER DATABASE", "SET ROLE"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestErrorHandler: telemetry's own errors are logged once a minute.
func TestErrorHandler(t *testing.T) {
	var stderr bytes.Buffer
	h := newErrorHandler(slog.NewJSONHandler(&stderr, nil))
	for range 100 {
		h.Handle(errors.New("the collector\nis gone"))
	}
	if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"level":"WARN","msg":"telemetry is incomplete","err":"the collector is gone"`) {
		t.Errorf("records: %s", got)
	}
}
