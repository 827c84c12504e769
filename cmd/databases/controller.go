package main

import (
	"context"
	"errors"
	"io"

	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/telemetry"
)

// runController runs the controller until ctx ends, and sends what telemetry is left then.
func runController(ctx context.Context, s settings.Settings, stderr io.Writer) (failed error) {
	// It connects to nobody yet; that a signal comes meanwhile is the manager's matter.
	t, err := telemetry.Start(context.WithoutCancel(ctx), telemetry.Options{
		Signals: s.Telemetry, Version: version(), Pod: s.PodName, Namespace: s.PodNamespace, Stderr: stderr,
	})
	if err != nil {
		return err
	}
	log := t.Logger()
	defer func() {
		if errors.Is(failed, manager.ErrLeaseLost) {
			return // another replica may lead by now: nothing is to be waited for
		}
		if err := t.Shutdown(ctx); err != nil {
			log.Warn("the last telemetry could not be sent", "err", err)
		}
	}()
	manager.Logger(log)
	log.Info("databases", "version", version())
	return manager.Run(ctx, manager.Options{Settings: s, Log: log, Telemetry: t})
}
