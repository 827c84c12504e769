package fault

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// Scenarios has the scenarios of one kind's objects. It is kept in memory: after a restart each begins anew.
type Scenarios struct {
	prefix   string
	maxDelay time.Duration

	mu    sync.Mutex
	known map[types.NamespacedName]*carried
}

// carried is what one object carries.
type carried struct {
	uid      types.UID
	text     string
	scenario *Scenario // nil where the text doesn't parse
}

// NewScenarios trusts the namespaces whose name begins with the prefix, none where it is empty. maxDelay is the longest
// delay.
func NewScenarios(prefix string, maxDelay time.Duration) *Scenarios {
	return &Scenarios{prefix: prefix, maxDelay: maxDelay, known: map[types.NamespacedName]*carried{}}
}

// Enter lets the object's scenario apply to the calls that are made with the context. It fails, the first time only,
// where the object carries one that doesn't parse, and then nothing applies.
func (s *Scenarios) Enter(ctx context.Context, object client.Object) (context.Context, error) {
	key, text := client.ObjectKeyFromObject(object), object.GetAnnotations()[v1alpha1.FailureScenarioAnnotation]
	if s == nil || s.prefix == "" || !strings.HasPrefix(key.Namespace, s.prefix) {
		return ctx, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		delete(s.known, key)
		return ctx, nil
	}
	c := s.known[key]
	if c != nil && c.uid == object.GetUID() && c.text == text {
		return WithScenario(ctx, c.scenario), nil
	}
	scenario, err := Parse(text)
	if err == nil {
		scenario.maxDelay = s.maxDelay
	}
	s.known[key] = &carried{uid: object.GetUID(), text: text, scenario: scenario}
	return WithScenario(ctx, scenario), err
}

// Remove forgets an object that is gone.
func (s *Scenarios) Remove(key types.NamespacedName) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}
