package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// errorInterval is the least time between two records of telemetry's own errors.
const errorInterval = time.Minute

// errorHandler logs telemetry's own errors, rarely, and never back into telemetry.
type errorHandler struct {
	stderr slog.Handler

	mu     sync.Mutex
	next   time.Time
	hidden int
}

func newErrorHandler(stderr slog.Handler) *errorHandler { return &errorHandler{stderr: stderr} }

// Handle implements otel.ErrorHandler.
func (h *errorHandler) Handle(err error) {
	h.mu.Lock()
	now := time.Now()
	if now.Before(h.next) {
		h.hidden++
		h.mu.Unlock()
		return
	}
	hidden := h.hidden
	h.next, h.hidden = now.Add(errorInterval), 0
	h.mu.Unlock()
	slog.New(h.stderr).LogAttrs(context.Background(), slog.LevelWarn, "telemetry is incomplete",
		slog.String("err", oneLine(err.Error())), slog.Int("more", hidden))
}

// maxError is what is logged of an error, in bytes.
const maxError = 300

// oneLine is an error's text on one line, without what a collector, or a proxy before it, answered: that may repeat what it was
// sent, the headers with a token among it.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "body:")
	s = strings.Join(strings.Fields(s), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxError)], "")
}
