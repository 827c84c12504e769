package telemetry

import (
	"context"

	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/example/databases/internal/settings"
)

// The exporters are chosen here and not by OpenTelemetry's autoexport, which takes one exporter of metrics where we
// want Prometheus beside OTLP, and knows of no registry but the process's default one.

func newSpanExporter(ctx context.Context, protocol string) (sdktrace.SpanExporter, error) {
	if protocol == settings.ProtocolGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

func newLogExporter(ctx context.Context, protocol string) (sdklog.Exporter, error) {
	if protocol == settings.ProtocolGRPC {
		return otlploggrpc.New(ctx)
	}
	return otlploghttp.New(ctx)
}

func newMetricExporter(ctx context.Context, protocol string) (sdkmetric.Exporter, error) {
	if protocol == settings.ProtocolGRPC {
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

// readers are what collects metrics. Each has beside ours those of controller-runtime, of client-go, and of the process,
// which are in controller-runtime's registry.
func (t *Telemetry) readers(ctx context.Context, signals settings.Telemetry) ([]sdkmetric.Option, error) {
	var options []sdkmetric.Option
	if signals.Metrics == "" && signals.Prometheus == "" {
		return nil, nil
	}
	if signals.Metrics != "" {
		forwarded := prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(explicitBuckets(metrics.Registry)))
		exporter, err := newMetricExporter(ctx, signals.Metrics)
		if err != nil {
			return nil, err
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(forwarded))))
	}
	if signals.Prometheus != "" {
		reader, server, err := servePrometheus(signals.Prometheus, metrics.Registry)
		if err != nil {
			return nil, err
		}
		t.prometheus = server
		options = append(options, sdkmetric.WithReader(reader))
	}
	return options, nil
}
