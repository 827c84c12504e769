package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestShutdownIsLimited: to 3 seconds, as docs/telemetry.md says, where an exporter never returns, and where the caller's
// context has ended before.
func TestShutdownIsLimited(t *testing.T) {
	const limit = 3 * time.Second
	for _, ended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now() // time passes only while all here wait
			never := make(chan struct{})
			defer close(never)
			var deadline time.Time
			var early error
			hangs := func(ctx context.Context) error {
				deadline, _ = ctx.Deadline()
				early = ctx.Err()
				<-never
				return nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if ended {
				cancel()
			}
			telemetry := &Telemetry{shutdown: []func(context.Context) error{hangs, func(context.Context) error { return answer{} }}}
			err := telemetry.Shutdown(ctx)
			if took := time.Since(start); took != limit || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, answer{}) {
				t.Errorf("it took %s, error %v, want %s", took, err, limit)
			}
			synctest.Wait()
			if got := deadline.Sub(start); got != limit || early != nil {
				t.Errorf("an exporter has %s, error %v, want %s", got, early, limit)
			}
		})
	}
}
