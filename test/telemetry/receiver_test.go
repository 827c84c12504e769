package telemetry_test

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// receiver takes OTLP over gRPC and keeps it.
type receiver struct {
	collectortrace.UnimplementedTraceServiceServer
	server  *grpc.Server
	address string

	mu        sync.Mutex
	spans     []*trace.Span
	metrics   map[string]*metrics.Metric // the last of each name
	logs      []*logs.LogRecord
	resources []*resource.Resource
	raw       []proto.Message
}

type metricsService struct {
	collectormetrics.UnimplementedMetricsServiceServer
	*receiver
}

type logsService struct {
	collectorlogs.UnimplementedLogsServiceServer
	*receiver
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{server: grpc.NewServer(), address: listener.Addr().String(), metrics: map[string]*metrics.Metric{}}
	collectortrace.RegisterTraceServiceServer(r.server, r)
	collectormetrics.RegisterMetricsServiceServer(r.server, metricsService{receiver: r})
	collectorlogs.RegisterLogsServiceServer(r.server, logsService{receiver: r})
	go func() { _ = r.server.Serve(listener) }()
	t.Cleanup(r.server.Stop)
	return r
}

func (r *receiver) Export(_ context.Context, request *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, request)
	for _, of := range request.ResourceSpans {
		r.resources = append(r.resources, of.Resource)
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func (s metricsService) Export(_ context.Context, request *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, request)
	for _, of := range request.ResourceMetrics {
		s.resources = append(s.resources, of.Resource)
		for _, scope := range of.ScopeMetrics {
			for _, m := range scope.Metrics {
				s.receiver.metrics[m.Name] = m
			}
		}
	}
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

func (s logsService) Export(_ context.Context, request *collectorlogs.ExportLogsServiceRequest) (*collectorlogs.ExportLogsServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, request)
	for _, of := range request.ResourceLogs {
		s.resources = append(s.resources, of.Resource)
		for _, scope := range of.ScopeLogs {
			s.receiver.logs = append(s.receiver.logs, scope.LogRecords...)
		}
	}
	return &collectorlogs.ExportLogsServiceResponse{}, nil
}

// everything is all that came, as text.
func (r *receiver) everything() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text []byte
	for _, m := range r.raw {
		text, _ = protojson.MarshalOptions{}.MarshalAppend(text, m)
	}
	return string(text)
}

// traceOf gives the spans of the first trace that satisfies ok, the root first, the others in order; nil for none.
func (r *receiver) traceOf(ok func(root *trace.Span, all []*trace.Span) bool) []*trace.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	byTrace := map[string][]*trace.Span{}
	for _, span := range r.spans {
		byTrace[string(span.TraceId)] = append(byTrace[string(span.TraceId)], span)
	}
	for _, root := range r.spans {
		if len(root.ParentSpanId) > 0 {
			continue
		}
		all := byTrace[string(root.TraceId)]
		slices.SortStableFunc(all, func(a, b *trace.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
		if ok(root, all) {
			return all
		}
	}
	return nil
}

// metric gives the points of a metric by their attributes, as "k=v,k=v".
func (r *receiver) metric(name string) map[string]float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	points := map[string]float64{}
	m := r.metrics[name]
	for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
		points[attributes(p.Attributes)] = max(p.GetAsDouble(), float64(p.GetAsInt()))
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		points[attributes(p.Attributes)] = float64(p.Count)
	}
	return points
}

func attributes(all []*common.KeyValue) string {
	var parts []string
	for _, a := range all {
		text := a.Value.GetStringValue()
		if of, ok := a.Value.GetValue().(*common.AnyValue_BoolValue); ok {
			text = strconv.FormatBool(of.BoolValue)
		}
		parts = append(parts, a.Key+"="+text)
	}
	slices.Sort(parts)
	text := ""
	for i, part := range parts {
		if i > 0 {
			text += ","
		}
		text += part
	}
	return text
}

// value is an attribute's, empty where there is none.
func value(all []*common.KeyValue, key string) string {
	for _, a := range all {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}
