package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestExplicitBuckets: a histogram with buckets of both kinds keeps its explicit ones on the way to OTLP.
func TestExplicitBuckets(t *testing.T) {
	registry := prometheus.NewRegistry()
	both := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "both", Buckets: []float64{1, 2}, NativeHistogramBucketFactor: 1.1})
	registry.MustRegister(both)
	both.Observe(1.5)
	scopes, err := prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(explicitBuckets(registry))).Produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	histogram, ok := scopes[0].Metrics[0].Data.(metricdata.Histogram[float64])
	if !ok {
		t.Fatalf("it is sent as a %T", scopes[0].Metrics[0].Data)
	}
	if p := histogram.DataPoints[0]; len(p.Bounds) != 2 || p.BucketCounts[1] != 1 || p.Count != 1 {
		t.Errorf("it is sent as %+v", p)
	}
}
