package fault

import (
	"context"
	"sync"
	"time"

	"github.com/example/databases/internal/credentials"
)

// The operations that a scenario can name besides those on the Secret.
const (
	OperationProvision  = "provision"
	OperationDrop       = "drop"
	OperationCheckLogin = "check-login"
)

// operations are all that a scenario can name.
var operations = []string{
	OperationProvision, OperationDrop, OperationCheckLogin, credentials.OperationRead, credentials.OperationApply,
}

// Scenario is what is to become of one Database's calls, and how many it has seen.
type Scenario struct {
	text  string
	terms map[string][]term
	// maxDelay is the cap.
	maxDelay time.Duration

	mu    sync.Mutex
	calls map[string]int
}

// term is one step of an operation's faults.
type term struct {
	// count is how many calls it is for; 0 for all that come.
	count int
	// every lets it strike at each so-many-th call only; 0 for each call.
	every int
	fault Fault
}

// next is what becomes of an operation's next call.
func (s *Scenario) next(operation string) Fault {
	terms := s.terms[operation]
	if len(terms) == 0 {
		return Fault{}
	}
	s.mu.Lock()
	s.calls[operation]++
	n := s.calls[operation]
	s.mu.Unlock()
	for _, t := range terms {
		switch {
		case t.count > 0 && n > t.count:
			n -= t.count
			continue
		case t.every > 0 && n%t.every != 0:
			return Fault{}
		}
		return Fault{Action: t.fault.Action, Delay: min(t.fault.Delay, s.maxDelay)}
	}
	return Fault{}
}

type scenarioKey struct{}

// WithScenario lets the scenario, which may be nil, apply to the calls that are made with the context.
func WithScenario(ctx context.Context, s *Scenario) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, scenarioKey{}, s)
}

func scenarioOf(ctx context.Context) *Scenario {
	s, _ := ctx.Value(scenarioKey{}).(*Scenario)
	return s
}

// Carried is the text of the context's scenario, empty where there is none.
func Carried(ctx context.Context) string {
	if s := scenarioOf(ctx); s != nil {
		return s.text
	}
	return ""
}

// byScenario is the Source that the context brings along.
type byScenario struct{}

func (byScenario) Next(ctx context.Context, operation string) Fault {
	if s := scenarioOf(ctx); s != nil {
		return s.next(operation)
	}
	return Fault{}
}
