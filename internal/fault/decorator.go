package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Action is what happens to a call.
type Action string

const (
	// None spoils nothing; the call is only counted.
	None Action = "none"
	// Before fails the call before it takes effect.
	Before Action = "before"
	// Conflict fails it before it takes effect, as somebody does who changed the same thing first.
	Conflict Action = "conflict"
	// Panic panics before it takes effect.
	Panic Action = "panic"
	// After lets the call take effect and then fails it, as a connection does that breaks before the answer.
	After Action = "after"
	// Kill lets the call take effect and ends the process with SIGKILL.
	Kill Action = "kill"
)

var (
	// Err is the error of a spoiled call.
	Err = errors.New("injected fault")
	// ErrConflict is the one of a call that a Conflict spoiled.
	ErrConflict = fmt.Errorf("%w, a conflict,", Err)
)

// Fault is what becomes of one call; nothing, where it is empty.
type Fault struct {
	// Delay comes first.
	Delay  time.Duration
	Action Action
}

// Source decides what becomes of each call. It is asked once a call.
type Source interface {
	Next(ctx context.Context, operation string) Fault
}

// Decorator is put around calls and does to each what its source says.
type Decorator struct{ Source Source }

// Call makes the call, or fails it. It can be a postgres.Interceptor and a credentials.Interceptor.
func (d Decorator) Call(ctx context.Context, operation string, call func(context.Context) error) error {
	fault := d.Source.Next(ctx, operation)
	if err := wait(ctx, fault.Delay, operation); err != nil {
		return err
	}
	switch fault.Action {
	case Before:
		return fmt.Errorf("%w before %s", Err, operation)
	case Conflict:
		return fmt.Errorf("%w before %s", ErrConflict, operation)
	case Panic:
		panic("injected panic before " + operation)
	case After, Kill:
		err := call(ctx)
		if fault.Action == Kill {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
		return errors.Join(fmt.Errorf("%w after %s", Err, operation), err)
	}
	return call(ctx)
}

// wait lets the time pass, and fails where the context ends first.
func wait(ctx context.Context, delay time.Duration, operation string) error {
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: a delay before %s that was ended: %w", Err, operation, ctx.Err())
	}
}
