package telemetry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/example/databases/internal/postgres"
)

// frame are the statements that only hold others together.
var frame = []string{"BEGIN", "COMMIT", "SET ROLE", "RESET ROLE"}

// SQL measures each round trip to PostgreSQL and puts a span a statement around those that a reconcile makes; nil where
// nothing is exported. Statements that are sent together have spans of the same length: only their end is known.
func (t *Telemetry) SQL() postgres.Interceptor {
	if !t.active() {
		return nil
	}
	tracer := t.tracerOrNone()
	return func(ctx context.Context, operation string, call func(context.Context) error) error {
		statements := statementsOf(operation)
		var spans []trace.Span
		inner := ctx
		if trace.SpanFromContext(ctx).IsRecording() {
			inner, spans = startSpans(ctx, tracer, statements)
		}
		start := time.Now()
		err := errPanicked
		defer func() { end(spans, time.Now(), err) }() // also where the call panics
		err = call(inner)
		took := time.Since(start)
		attributes := []attribute.KeyValue{semconv.DBSystemNamePostgreSQL, semconv.DBQuerySummary(strings.Join(statements, "; "))}
		if err != nil {
			attributes = append(attributes, semconv.ErrorTypeKey.String(errorType(err)))
		}
		t.instruments.roundTrip.Record(ctx, took.Seconds(), metric.WithAttributeSet(attribute.NewSet(attributes...)))
		return err
	}
}

// errPanicked is what the spans tell of a call that didn't come back.
var errPanicked = errors.New("the call panicked")

func startSpans(ctx context.Context, tracer trace.Tracer, statements []string) (context.Context, []trace.Span) {
	spans := make([]trace.Span, 0, len(statements))
	inner := ctx
	now := trace.WithTimestamp(time.Now())
	for i, statement := range statements {
		operation, _, _ := strings.Cut(statement, " ")
		attributes := []attribute.KeyValue{semconv.DBSystemNamePostgreSQL, semconv.DBQuerySummary(statement), semconv.DBOperationName(operation)}
		if len(statements) > 1 {
			attributes = append(attributes, semconv.DBOperationBatchSize(len(statements)))
		}
		spanCtx, span := tracer.Start(ctx, statement, now, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
		if i == 0 {
			inner = spanCtx
		}
		spans = append(spans, span)
	}
	return inner, spans
}

func end(spans []trace.Span, at time.Time, err error) {
	for _, span := range spans {
		if err != nil {
			var state []attribute.KeyValue
			if code := sqlState(err); code != "" {
				state = append(state, semconv.DBResponseStatusCode(code))
			}
			failed(span, err, errorType(err), state...)
		}
		span.End(trace.WithTimestamp(at))
	}
}

// statementsOf are the statements of a round trip, but for those of its frame.
func statementsOf(operation string) []string {
	all := strings.Split(operation, "; ")
	inner := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(frame, s) })
	if len(inner) == 0 {
		return all
	}
	return inner
}

// errorType is the SQLSTATE, or that the server gave none.
func errorType(err error) string {
	switch code := sqlState(err); {
	case code != "":
		return code
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return "timeout"
	}
	return "connection"
}

func sqlState(err error) string {
	var answer interface{ SQLState() string }
	if errors.As(err, &answer) {
		return answer.SQLState()
	}
	return ""
}
