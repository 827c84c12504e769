package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/example/databases/internal/settings"
)

// scope is the name under which our spans, metrics and records are made.
const scope = "github.com/example/databases"

// flushLimit is how long Shutdown may take: what a collector hasn't taken by then is lost.
const flushLimit = 3 * time.Second

// Options are what the telemetry says of its program, and where it goes.
type Options struct {
	Signals settings.Telemetry
	// Version is the program's; Pod and Namespace are empty outside a cluster.
	Version, Pod, Namespace string
	// Stderr takes the log.
	Stderr io.Writer
}

// Telemetry is the program's telemetry. A nil one exports nothing.
type Telemetry struct {
	log         *slog.Logger
	tracer      trace.Tracer // nil where no traces are exported
	meter       metric.Meter // nil where no metrics are
	instruments *instruments

	prometheus *server
	shutdown   []func(context.Context) error
}

// Start sets up what the environment asks for. It connects to nobody: a collector that isn't there keeps nothing from
// starting.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	stderr := slog.NewJSONHandler(o.Stderr, nil)
	t := &Telemetry{log: slog.New(newHandler(stderr, nil))}
	if o.Signals == (settings.Telemetry{}) {
		return t, nil
	}
	otel.SetErrorHandler(newErrorHandler(stderr))
	otel.SetLogger(logr.Discard()) // the SDK's own records, which may quote values of the environment
	if err := t.start(ctx, o, stderr); err != nil {
		_ = t.Shutdown(ctx)
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return t, nil
}

func (t *Telemetry) start(ctx context.Context, o Options, stderr slog.Handler) error {
	resource, err := newResource(ctx, o)
	if err != nil {
		return err
	}
	if o.Signals.Traces != "" {
		exporter, err := newSpanExporter(ctx, o.Signals.Traces)
		if err != nil {
			return fmt.Errorf("traces: %w", err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource))
		t.tracer = provider.Tracer(scope)
		t.shutdown = append(t.shutdown, provider.Shutdown)
	}
	if o.Signals.Logs != "" {
		exporter, err := newLogExporter(ctx, o.Signals.Logs)
		if err != nil {
			return fmt.Errorf("logs: %w", err)
		}
		provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(resource))
		t.log = slog.New(newHandler(stderr, provider))
		t.shutdown = append(t.shutdown, provider.Shutdown)
	}
	readers, err := t.readers(ctx, o.Signals)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if len(readers) > 0 {
		provider := sdkmetric.NewMeterProvider(append(readers, sdkmetric.WithResource(resource))...)
		t.shutdown = append(t.shutdown, provider.Shutdown)
		t.meter = provider.Meter(scope)
	}
	if t.tracer == nil && t.meter == nil {
		return nil
	}
	t.instruments, err = newInstruments(t.meterOrNone())
	return err
}

func (t *Telemetry) meterOrNone() metric.Meter {
	if t.meter == nil {
		return metricnoop.Meter{}
	}
	return t.meter
}

func (t *Telemetry) tracerOrNone() trace.Tracer {
	if t.tracer == nil {
		return tracenoop.Tracer{}
	}
	return t.tracer
}

// active reports whether there is anything to decorate for.
func (t *Telemetry) active() bool { return t != nil && (t.tracer != nil || t.meter != nil) }

// Logger writes each record as a line of JSON to standard error, and exports it where that is asked for.
func (t *Telemetry) Logger() *slog.Logger { return t.log }

// Shutdown sends what is left, within flushLimit.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	done := make(chan error, len(t.shutdown)+1)
	for _, shutdown := range t.shutdown {
		go func() { done <- shutdown(ctx) }()
	}
	var all error
	for range t.shutdown {
		select {
		case err := <-done:
			all = errors.Join(all, err)
		case <-ctx.Done(): // whatever an exporter makes of its context
			return errors.Join(all, ctx.Err())
		}
	}
	t.shutdown = nil
	return errors.Join(all, t.prometheus.close())
}
