package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
)

// failedReconcile is the name of the library's record of a reconcile that returned an error: it is the one record of
// it, under the name that alert rules and saved searches know.
const failedReconcile = "reconcile failed"

// handler writes records as JSON, and exports them where there is a provider. It finds a record's span in the context,
// in the values of its logger, or in its error: the library passes records on without a context.
type handler struct {
	json slog.Handler
	otlp slog.Handler // nil for none
	span trace.SpanContext
}

func newHandler(json slog.Handler, provider log.LoggerProvider) slog.Handler {
	h := &handler{json: json}
	if provider != nil {
		h.otlp = otelslog.NewHandler(scope, otelslog.WithLoggerProvider(provider))
	}
	return h
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.json.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == "Reconciler error" {
		record.Message = failedReconcile
	}
	span := h.spanOf(ctx, record)
	if h.otlp != nil {
		_ = h.otlp.Handle(trace.ContextWithSpanContext(ctx, span), withText(record)) // it never fails
	}
	if span.IsValid() {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.json.Handle(ctx, record)
}

func (h *handler) spanOf(ctx context.Context, record slog.Record) trace.SpanContext {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		span = h.span
	}
	record.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		var failed *spanError
		if ok && !span.IsValid() && errors.As(err, &failed) {
			span = failed.span
		}
		return !span.IsValid()
	})
	return span
}

// withText replaces errors by their text, so that a record has the same values wherever it goes: OpenTelemetry's bridge
// would give an error another name, and its Go type.
func withText(record slog.Record) slog.Record {
	text := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	record.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(err.Error())
		}
		text.AddAttrs(a)
		return true
	})
	return text
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	kept := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		if span, ok := a.Value.Any().(trace.SpanContext); ok {
			with.span = span
			continue
		}
		kept = append(kept, a)
	}
	with.json = h.json.WithAttrs(kept)
	if h.otlp != nil {
		with.otlp = h.otlp.WithAttrs(kept)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.json = h.json.WithGroup(name)
	if h.otlp != nil {
		with.otlp = h.otlp.WithGroup(name)
	}
	return &with
}

// spanError is an error of a reconcile with its span, for the record that the library makes of it.
type spanError struct {
	error
	span trace.SpanContext
}

func (e *spanError) Unwrap() error { return e.error }
