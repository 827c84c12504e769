package main

import (
	"io"
	"log/slog"
)

// newLogger writes a JSON record a line. The library's own record of a reconcile that returned an error is the one
// record of it, under the name that alert rules and saved searches know.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.MessageKey && a.Value.String() == "Reconciler error" {
				a.Value = slog.StringValue("reconcile failed")
			}
			return a
		},
	}))
}
