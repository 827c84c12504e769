package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	probeFirst = 500 * time.Millisecond
	probeMax   = 15 * time.Second
)

// breaker keeps callers away from a server that can't be reached, and finds out itself when it can be reached again.
// The circuit breakers of libraries wait for a caller to try; here callers wait for the breaker, which must therefore
// try by itself and say so.
type breaker struct {
	// probe makes one attempt to reach the server.
	probe func(context.Context) error
	// poke makes the waiting prober try at once.
	poke chan struct{}

	mu      sync.Mutex
	err     *Error // why calls are refused; nil while the server is believed up
	changed []func(error)
}

// refusal is the error with which calls fail at once; nil while they may go on.
func (b *breaker) refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return nil
	}
	return b.err
}

// notify adds a function that is called when the breaker opens (with the reason) and when it closes (with nil).
func (b *breaker) notify(f func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = append(b.changed, f)
}

// open refuses calls from now on and starts probing until ctx ends; it does nothing where that is so already.
func (b *breaker) open(ctx context.Context, reason *Error) {
	if b.set(reason) {
		go b.run(ctx)
	}
}

func (b *breaker) set(reason *Error) bool {
	b.mu.Lock()
	was := b.err
	b.err = reason
	changed := b.changed
	b.mu.Unlock()
	if (was == nil) == (reason == nil) {
		return false
	}
	for _, f := range changed {
		if reason == nil {
			f(nil)
		} else {
			f(reason)
		}
	}
	return true
}

func (b *breaker) run(ctx context.Context) {
	for delay := probeFirst; ; delay = min(2*delay, probeMax) {
		jittered := delay/2 + rand.N(delay/2+1)
		select {
		case <-ctx.Done():
			return
		case <-b.poke:
			delay = probeFirst
		case <-time.After(jittered):
		}
		err := b.probe(ctx)
		if err == nil {
			b.set(nil)
			return
		}
		if ctx.Err() == nil {
			b.set(unavailable(err))
		}
	}
}

func unavailable(cause error) *Error {
	return errorf(KindUnavailable, cause, "%s", connectMessage(cause))
}
