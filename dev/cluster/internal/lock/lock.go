// Package lock takes turns among programs by files.
//
// Invariants: a lock ends with its holder, however that ends; the file is left, so that everybody locks the same one.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Take takes an exclusive lock on a file, which the system gives back when the holder ends, however it ends. It
// calls waiting once if somebody else has it.
func Take(ctx context.Context, file string, waiting func()) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
