package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// measured is a controller's telemetry, and what it has counted, by attributes.
func measured(t *testing.T) (c *Controller, counted func(name string) map[string]int64) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	telemetry := &Telemetry{meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(scope)}
	var err error
	if telemetry.instruments, err = newInstruments(telemetry.meterOrNone()); err != nil {
		t.Fatal(err)
	}
	return telemetry.Controller(KindShared), func(name string) map[string]int64 {
		t.Helper()
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		values := map[string]int64{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				sum, ok := m.Data.(metricdata.Sum[int64])
				if m.Name != name || !ok {
					continue
				}
				for _, p := range sum.DataPoints {
					text := ""
					for _, a := range p.Attributes.ToSlice() {
						text += string(a.Key) + "=" + a.Value.String() + " "
					}
					values[text] = p.Value
				}
			}
		}
		return values
	}
}

// TestFailovers: a change of the primary is told apart by whether the controller made it, and just now.
func TestFailovers(t *testing.T) {
	c, counted := measured(t)
	ctx := t.Context()
	c.Primary(ctx, "a", "", "a-0")
	c.Primary(ctx, "a", "a-0", "")
	c.Planned("a")
	c.Primary(ctx, "a", "", "a-1") // planned
	c.Primary(ctx, "a", "a-1", "a-0")
	c.Planned("a")
	c.planned["a"] = time.Now().Add(-plannedFor)
	c.Primary(ctx, "a", "a-0", "a-1") // too long after
	c.Primary(ctx, "b", "b-0", "b-1") // the first that this controller sees
	c.Primary(ctx, "b", "b-1", "b-1")
	if diff := cmp.Diff(map[string]int64{"databases.planned=true ": 1, "databases.planned=false ": 3}, counted(nameFailovers)); diff != "" {
		t.Error(diff)
	}
	c.Forget("a")
	c.Forget("b")
	if len(c.primaries) > 0 || len(c.planned) > 0 {
		t.Errorf("it remembers %v, %v", c.primaries, c.planned)
	}
}

// TestRefusals: a refusal counts once, whatever came between two looks at it, and again after the Database was Ready.
func TestRefusals(t *testing.T) {
	c, counted := measured(t)
	var before []metav1.Condition
	conclude := func(reasons ...string) {
		for _, reason := range reasons {
			ready := metav1.Condition{Type: readyCondition, Reason: reason, Status: metav1.ConditionFalse}
			if reason == "Provisioned" {
				ready.Status = metav1.ConditionTrue
			}
			after := []metav1.Condition{ready}
			c.Concluded(t.Context(), "a", before, after)
			before = after
		}
	}
	want := func(when string, n int64) {
		t.Helper()
		if got := counted(nameRefused)["databases.kind=shared databases.reason=NameConflict "]; got != n {
			t.Errorf("%s: %d refusals are counted, want %d", when, got, n)
		}
	}
	conclude("PostgresUnavailable", "NameConflict", "NameConflict")
	want("refused", 1)
	conclude("PostgresUnavailable", "NameConflict")
	want("an outage later", 1)
	conclude("Provisioned", "NameConflict")
	want("after it was ready", 2)
	c.Forget("a")
	if len(c.refused) > 0 {
		t.Errorf("it remembers %v", c.refused)
	}
	conclude("NameConflict")
	conclude("PostgresUnavailable", "NameConflict")
	want("a refusal from before this program's start", 2)
}
