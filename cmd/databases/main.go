// Command databases is the controller: PostgreSQL databases as Kubernetes resources.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/example/databases/internal/settings"
)

// Exit statuses. 78 is EX_CONFIG of sysexits.h.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitConfig = 78
)

// errConfig marks an error that only a change of the settings mends.
var errConfig = errors.New("bad settings")

// errUsage marks an error in the command line.
var errUsage = errors.New("bad usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// run is the program without the process around it; it returns the exit status.
func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, lookup, stdout, stderr)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errConfig):
		fmt.Fprintln(stderr, err)
		return exitConfig
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "databases: %v\n", err)
	return exitFailed
}

func dispatch(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	if len(args) == 0 {
		s, err := readSettings(lookup)
		if err != nil {
			return err
		}
		return runController(ctx, s, stderr)
	}
	switch args[0] {
	case "--help", "-h", "help":
		usage(stdout)
		return nil
	case "--version", "version":
		fmt.Fprintln(stdout, "databases", version())
		return nil
	case "adopt":
		return adopt(ctx, args[1:], lookup, stdout, stderr)
	}
	return fmt.Errorf("databases: unknown argument %q; see databases --help%w", args[0], silent{errUsage})
}

func readSettings(lookup func(string) (string, bool)) (settings.Settings, error) {
	s, err := settings.Read(lookup)
	if err != nil {
		return s, fmt.Errorf("databases: the settings are wrong; see databases --help\n%w%w", err, silent{errConfig})
	}
	return s, nil
}

// silent marks an error without adding words to it.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }
