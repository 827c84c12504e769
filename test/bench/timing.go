package main

import (
	"cmp"
	"slices"
	"time"
)

// span is one thing's beginning and end.
type span struct{ from, to time.Time }

// timing is how long many things took.
type timing struct {
	N int
	// Total is from the first beginning to the last end; P50 and P95 are of each by itself.
	Total, P50, P95 time.Duration
}

func timingOf(spans []span) timing {
	if len(spans) == 0 {
		return timing{}
	}
	first, last := spans[0].from, spans[0].to
	var each []time.Duration
	for _, s := range spans {
		each = append(each, s.to.Sub(s.from))
		if s.from.Before(first) {
			first = s.from
		}
		if s.to.After(last) {
			last = s.to
		}
	}
	return timing{N: len(spans), Total: last.Sub(first), P50: quantile(each, 0.5), P95: quantile(each, 0.95)}
}

// quantile is the smallest value that the share q of all doesn't exceed.
func quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// median is the middle value, the lower one of two.
func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
