package lock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestLockIsExclusiveAndWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	first, err := Take(t.Context(), file, func() { t.Error("a free lock is waited for") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Take(ctx, file, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a taken lock gives %v, want to wait until cancelled", err)
	}
	second, err := Take(t.Context(), file, func() { first.Close() })
	if err != nil {
		t.Fatalf("the lock was given back but cannot be taken: %v", err)
	}
	second.Close()
}
