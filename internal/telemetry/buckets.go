package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// explicitBuckets are the same metrics without the native buckets of histograms that have them beside explicit ones. The
// bridge to OTLP would send the native ones alone: queries ask for the others, and a Prometheus that isn't told to keep
// native histograms refuses the whole request.
func explicitBuckets(of prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := of.Gather() // copies, made for this call
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if h := metric.GetHistogram(); h != nil && len(h.GetBucket()) > 0 {
					withoutNative(h)
				}
			}
		}
		return families, err
	})
}

func withoutNative(h *dto.Histogram) {
	h.Schema, h.ZeroThreshold, h.ZeroCount, h.ZeroCountFloat = nil, nil, nil, nil
	h.PositiveSpan, h.PositiveDelta, h.PositiveCount = nil, nil, nil
	h.NegativeSpan, h.NegativeDelta, h.NegativeCount = nil, nil, nil
}
