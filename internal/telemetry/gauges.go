package telemetry

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
)

// Gauges are what is looked up when metrics are collected. Only the leader reports them: two replicas would count every
// Database twice.
type Gauges struct {
	// Cache has all Databases.
	Cache client.Reader
	// Elected is closed where this replica leads.
	Elected <-chan struct{}
	// ServerUp says whether the shared server can be used; nil where there is none.
	ServerUp *atomic.Bool
}

// Observe registers the gauges.
func (t *Telemetry) Observe(g Gauges) error {
	if t == nil || t.meter == nil {
		return nil
	}
	count, err := t.meter.Int64ObservableGauge(nameCount, metric.WithUnit("{database}"), metric.WithDescription("Databases by the state of their condition Ready."))
	if err != nil {
		return err
	}
	unready, err := t.meter.Float64ObservableGauge(nameUnready, metric.WithUnit("s"),
		metric.WithDescription("How long the Database that is unready the longest has been so, by its reason; paused ones don't count."))
	if err != nil {
		return err
	}
	up, err := t.meter.Int64ObservableGauge(nameServerUp, metric.WithDescription("Whether the shared PostgreSQL server can be used."))
	if err != nil {
		return err
	}
	_, err = t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		select {
		case <-g.Elected:
		default:
			return nil
		}
		if g.ServerUp != nil {
			value := int64(0)
			if g.ServerUp.Load() {
				value = 1
			}
			o.ObserveInt64(up, value)
		}
		for kind, count1 := range map[string]func(context.Context, client.Reader) (*tally, error){KindShared: countShared, KindDedicated: countDedicated} {
			sum, err := count1(ctx, g.Cache)
			if err != nil {
				return err
			}
			sum.report(o, kind, count, unready)
		}
		return nil
	}, count, unready, up)
	return err
}

// state is a Database's, as it is counted.
type state struct {
	reason string
	ready  bool
}

// tally sums Databases up.
type tally struct {
	count map[state]int64
	// oldest has, by reason, since when the one has been unready that is so the longest.
	oldest map[string]time.Time
}

func newTally() *tally { return &tally{count: map[state]int64{}, oldest: map[string]time.Time{}} }

func (s *tally) report(o metric.Observer, kind string, count metric.Int64Observable, unready metric.Float64Observable) {
	for one, n := range s.count {
		o.ObserveInt64(count, n, metric.WithAttributes(keyKind.String(kind), keyReason.String(one.reason), keyReady.String(strconv.FormatBool(one.ready))))
	}
	for reason, since := range s.oldest {
		o.ObserveFloat64(unready, max(0, time.Since(since).Seconds()), metric.WithAttributes(keyKind.String(kind), keyReason.String(reason)))
	}
}

// add counts one Database; since is when Ready took its status, or zero.
func (s *tally) add(one state, since, created time.Time, paused bool) {
	if one.reason == "" {
		one.reason = noReason
	}
	s.count[one]++
	if one.ready || paused {
		return
	}
	if since.IsZero() {
		since = created
	}
	if oldest, known := s.oldest[one.reason]; !known || since.Before(oldest) {
		s.oldest[one.reason] = since
	}
}

func countShared(ctx context.Context, cache client.Reader) (*tally, error) {
	var all v1alpha1.DatabaseList
	if err := cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil { // nothing is changed here
		return nil, err
	}
	sum := newTally()
	for i := range all.Items {
		db := &all.Items[i]
		var one state
		var since time.Time
		if ready := apimeta.FindStatusCondition(db.Status.Conditions, readyCondition); ready != nil {
			one, since = state{ready.Reason, ready.Status == metav1.ConditionTrue}, ready.LastTransitionTime.Time
		}
		sum.add(one, since, db.CreationTimestamp.Time, db.Annotations[v1alpha1.PausedAnnotation] == "true")
	}
	return sum, nil
}

// countDedicated reads the untyped form in which dedicated Databases are cached.
func countDedicated(ctx context.Context, cache client.Reader) (*tally, error) {
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(databasev1.GroupVersion.WithKind(databasev1.DatabaseKind + "List"))
	if err := cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	sum := newTally()
	for i := range all.Items {
		db := &all.Items[i]
		one, since := readyOf(db)
		sum.add(one, since, db.GetCreationTimestamp().Time, db.GetAnnotations()[databasev1.PausedAnnotation] == "true")
	}
	return sum, nil
}

func readyOf(db *unstructured.Unstructured) (one state, since time.Time) {
	found, _, _ := unstructured.NestedFieldNoCopy(db.Object, "status", "conditions")
	conditions, _ := found.([]any)
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		if fields["type"] != readyCondition {
			continue
		}
		one.reason, _ = fields["reason"].(string)
		one.ready = fields["status"] == string(metav1.ConditionTrue)
		text, _ := fields["lastTransitionTime"].(string)
		since, _ = time.Parse(time.RFC3339, text)
	}
	return one, since
}
