package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/example/databases/internal/settings"
)

// release is set by the linker in a release build.
var release string

// version is the release, or the commit that the program was built from.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if len(revision) > 12 {
		revision = revision[:12]
	}
	if revision == "" {
		return info.Main.Version
	}
	return "commit " + revision + dirty
}

func usage(w io.Writer) {
	fmt.Fprint(w, `databases gives PostgreSQL databases to those who ask Kubernetes for one.

usage:
  databases            run the controller
  databases adopt      write a claim on an existing role; see databases adopt --help
  databases --version
  databases --help

settings (environment variables, with their defaults):
`)
	settings.Describe(w)
	fmt.Fprint(w, `
exit status: 0 stopped by a signal, 1 failed, 2 bad arguments, 78 bad settings (each named)
`)
}
