package monitoring_test

import (
	"context"
	"net"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/otlptranslator"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
)

// receiver takes metrics by OTLP, and keeps all that came.
type receiver struct {
	collector.UnimplementedMetricsServiceServer
	address string

	mu       sync.Mutex
	families map[string]*dto.MetricFamily
	faults   map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{address: listener.Addr().String(), families: map[string]*dto.MetricFamily{}, faults: map[string]bool{}}
	server := grpc.NewServer()
	collector.RegisterMetricsServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return r
}

// Export implements the service. What came last of each metric is kept as Prometheus would keep it.
func (r *receiver) Export(_ context.Context, request *collector.ExportMetricsServiceRequest) (*collector.ExportMetricsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range request.GetResourceMetrics() {
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				family, err := inPrometheus(m)
				if err != nil {
					r.faults[err.Error()] = true
					continue
				}
				r.families[family.GetName()] = family
			}
		}
	}
	return &collector.ExportMetricsServiceResponse{}, nil
}

// received are the metrics, and what no Prometheus would take.
func (r *receiver) received() (families map[string]*dto.MetricFamily, faults []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	families = map[string]*dto.MetricFamily{}
	for name, family := range r.families {
		families[name] = family
	}
	for fault := range r.faults {
		faults = append(faults, fault)
	}
	return families, faults
}

// inPrometheus is a metric under the name, and of the type, that Prometheus' OTLP receiver gives it; its values aren't kept.
func inPrometheus(m *otlp.Metric) (*dto.MetricFamily, error) {
	var points []attributed
	var kind dto.MetricType
	var translated otlptranslator.MetricType
	switch data := m.GetData().(type) {
	case *otlp.Metric_Gauge:
		kind, translated, points = dto.MetricType_GAUGE, otlptranslator.MetricTypeGauge, all(data.Gauge.GetDataPoints())
	case *otlp.Metric_Sum:
		kind, translated, points = dto.MetricType_GAUGE, otlptranslator.MetricTypeNonMonotonicCounter, all(data.Sum.GetDataPoints())
		if data.Sum.GetIsMonotonic() {
			kind, translated = dto.MetricType_COUNTER, otlptranslator.MetricTypeMonotonicCounter
		}
	case *otlp.Metric_Histogram:
		kind, translated, points = dto.MetricType_HISTOGRAM, otlptranslator.MetricTypeHistogram, all(data.Histogram.GetDataPoints())
	case *otlp.Metric_Summary:
		kind, translated, points = dto.MetricType_SUMMARY, otlptranslator.MetricTypeSummary, all(data.Summary.GetDataPoints())
	default:
		return nil, &refused{m}
	}
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	name, err := namer.Build(otlptranslator.Metric{Name: m.GetName(), Unit: m.GetUnit(), Type: translated})
	if err != nil {
		return nil, err
	}
	family := &dto.MetricFamily{Name: &name, Type: &kind}
	for _, point := range points {
		metric := &dto.Metric{}
		for _, a := range point.GetAttributes() {
			label, err := (&otlptranslator.LabelNamer{}).Build(a.GetKey())
			if err != nil {
				return nil, err
			}
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &label})
		}
		family.Metric = append(family.Metric, metric)
	}
	return family, nil
}

// refused is a metric that a Prometheus without native histograms refuses, and all that is sent with it.
type refused struct{ metric *otlp.Metric }

func (r *refused) Error() string {
	if r.metric.GetExponentialHistogram() != nil {
		return r.metric.GetName() + " is sent as an exponential histogram, which Prometheus refuses as it comes"
	}
	return r.metric.GetName() + " is of a type that Prometheus doesn't have"
}

// attributed is a point of any type.
type attributed interface{ GetAttributes() []*common.KeyValue }

func all[P attributed](points []P) []attributed {
	var some []attributed
	for _, point := range points {
		some = append(some, point)
	}
	return some
}
