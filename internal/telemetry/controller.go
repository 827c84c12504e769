package telemetry

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/databases/internal/postgres"
)

// Controller is the telemetry of one controller. A nil one does nothing.
type Controller struct {
	*Telemetry
	kind attribute.KeyValue

	mu sync.Mutex
	// primaries are the last known ones of dedicated servers.
	primaries map[types.UID]string
	// planned has when the controller itself made a server change its primary.
	planned map[types.UID]time.Time
	// refused are the refusals that stand, and are counted: an outage between two looks makes no new one.
	refused map[types.UID]string
}

// plannedFor is how long after the controller moved or restarted a primary a change is its doing.
const plannedFor = 5 * time.Minute

// Controller is the telemetry of the controller of that kind; nil where nothing is exported.
func (t *Telemetry) Controller(kind string) *Controller {
	if !t.active() {
		return nil
	}
	return &Controller{Telemetry: t, kind: keyKind.String(kind),
		primaries: map[types.UID]string{}, planned: map[types.UID]time.Time{}, refused: map[types.UID]string{}}
}

// with are a measurement's attributes, the kind among them.
func (c *Controller) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(more, c.kind)...))
}

// Provision calls the Admin's Provision.
func (c *Controller) Provision(ctx context.Context, admin postgres.Admin, wish postgres.Wish) (postgres.Outcome, error) {
	if c == nil {
		return admin.Provision(ctx, wish)
	}
	start := time.Now()
	outcome, err := admin.Provision(ctx, wish)
	var failed []attribute.KeyValue
	if err != nil {
		failed = append(failed, semconv.ErrorTypeKey.String(string(postgres.KindOf(err))))
	}
	c.instruments.provision.Record(ctx, time.Since(start).Seconds(), c.with(failed...))
	return outcome, err
}

// Repaired counts changes to a Database that was Ready as its spec is.
func (c *Controller) Repaired(ctx context.Context, changes []string) {
	if c == nil {
		return
	}
	for _, change := range changes {
		c.instruments.repaired.Add(ctx, 1, c.with(keyChange.String(summary(change))))
	}
}

// summary is a change without its object: a change begins with two words for what is done.
func summary(change string) string {
	words := strings.Fields(change)
	return strings.Join(words[:min(2, len(words))], " ")
}

// Rotated counts a new password of a Database that had one.
func (c *Controller) Rotated(ctx context.Context) {
	if c != nil {
		c.instruments.rotations.Add(ctx, 1, c.with())
	}
}

// refusals are the reasons that say that something is somebody else's.
var refusals = []string{"AlreadyExists", "NameConflict", "NameReserved", "SecretConflict", "ChildConflict"}

// Concluded is told how a Database's Ready was before a reconcile, and how it is after it.
func (c *Controller) Concluded(ctx context.Context, database types.UID, before, after []metav1.Condition) {
	if c == nil {
		return
	}
	was, is := apimeta.FindStatusCondition(before, readyCondition), apimeta.FindStatusCondition(after, readyCondition)
	if is == nil {
		return
	}
	trace.SpanFromContext(ctx).SetAttributes(keyReason.String(is.Reason))
	if c.newRefusal(database, is) && (was == nil || was.Reason != is.Reason) {
		c.instruments.refused.Add(ctx, 1, c.with(keyRefusal.String(is.Reason)))
	}
}

// newRefusal reports whether Ready says a refusal that isn't remembered, and remembers it until the Database is Ready.
func (c *Controller) newRefusal(database types.UID, ready *metav1.Condition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ready.Status == metav1.ConditionTrue {
		delete(c.refused, database)
	}
	if !slices.Contains(refusals, ready.Reason) || c.refused[database] == ready.Reason {
		return false
	}
	c.refused[database] = ready.Reason
	return true
}

// readyCondition is the condition Ready, the same of both kinds.
const readyCondition = "Ready"

// FirstReady measures a Database that is Ready for the first time.
func (c *Controller) FirstReady(ctx context.Context, created time.Time) {
	if c != nil {
		c.instruments.ready.Record(ctx, time.Since(created).Seconds(), c.with())
	}
}

// Primary is told which pod is the primary of a dedicated server; empty for none. It counts where another pod has become
// it, also where there was none for a while.
func (c *Controller) Primary(ctx context.Context, server types.UID, was, is string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	last, known := c.primaries[server]
	if !known {
		last = was
	}
	if is != "" {
		c.primaries[server] = is
	} else if last != "" {
		c.primaries[server] = last
	}
	changed := last != "" && is != "" && last != is
	at, asked := c.planned[server]
	if changed {
		delete(c.planned, server)
	}
	c.mu.Unlock()
	if changed {
		planned := asked && time.Since(at) < plannedFor
		c.instruments.failover.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(keyPlanned.Bool(planned))))
	}
}

// Planned is told that the controller is about to move or restart a dedicated server's primary.
func (c *Controller) Planned(server types.UID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned[server] = time.Now()
}

// Forget forgets a Database that is deleted.
func (c *Controller) Forget(database types.UID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.primaries, database)
	delete(c.planned, database)
	delete(c.refused, database)
}
