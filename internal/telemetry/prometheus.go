package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// server serves /metrics.
type server struct{ http *http.Server }

// servePrometheus makes the reader whose metrics are scraped, and serves them, under the names that OTLP's metrics have
// in Prometheus, together with those of others.
func servePrometheus(address string, others prometheus.Gatherer) (sdkmetric.Reader, *server, error) {
	registry := prometheus.NewRegistry()
	reader, err := prometheusexporter.New(
		prometheusexporter.WithRegisterer(registry),
		prometheusexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes), prometheusexporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("serving Prometheus at OTEL_EXPORTER_PROMETHEUS_HOST and _PORT: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers{registry, others}, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 3}))
	s := &server{&http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			otel.Handle(fmt.Errorf("serving Prometheus: %w", err))
		}
	}()
	return reader, s, nil
}

func (s *server) close() error {
	if s == nil {
		return nil
	}
	return s.http.Close()
}
