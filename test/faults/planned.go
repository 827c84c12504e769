//go:build linux

package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Planned is no harm: a change that a person asks for, under the same eyes as a fault.
func Planned(name, what string, do func(ctx context.Context) error) Fault {
	return Fault{Name: name, What: what, inject: func(ctx context.Context, _ *Target, _ *corev1.Pod) (func(context.Context) error, error) {
		return nil, do(ctx)
	}}
}

// PlannedFor is a change that lasts for a time until it is undone. undo is called where do didn't fail.
func PlannedFor(name, what string, hold time.Duration, do, undo func(ctx context.Context) error) Fault {
	return Fault{Name: name, What: what, Hold: hold, inject: func(ctx context.Context, _ *Target, _ *corev1.Pod) (func(context.Context) error, error) {
		return undo, do(ctx)
	}}
}

// noticeable is the shortest time without writes that counts as a step of an outage: several times the writer's pace.
const noticeable = 300 * time.Millisecond

// Gap is a time without writes.
type Gap struct {
	// After is when it began, from the fault on, and Length how long it was, both in milliseconds.
	After  int64 `json:"afterMs"`
	Length int64 `json:"lengthMs"`
}

// gaps are those since a time, but for those that nobody would notice.
func gaps(acks []Ack, since time.Time) (all []Gap) {
	last := since
	for _, ack := range acks {
		if length := ack.At.Sub(last); ack.At.After(since) && length >= noticeable {
			all = append(all, Gap{After: last.Sub(since).Milliseconds(), Length: length.Milliseconds()})
		}
		last = ack.At
	}
	return all
}

// Steps is a line of the times without writes, one for each step of a change.
func (r *Result) Steps() string {
	if len(r.Gaps) == 0 {
		return fmt.Sprintf("writes were never out for %d ms", noticeable.Milliseconds())
	}
	var steps []string
	for _, gap := range r.Gaps {
		steps = append(steps, fmt.Sprintf("%.2f s (after %.1f s)", float64(gap.Length)/1000, float64(gap.After)/1000))
	}
	return "writes were out for " + strings.Join(steps, ", ")
}
