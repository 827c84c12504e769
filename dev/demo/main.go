// Command demo tells what the controller does, to somebody who sees it for the first time: it starts a Kubernetes, a
// PostgreSQL and the controller on this machine, and goes through the life of a few databases. Each command that it
// shows is the one that it runs, and the output below it is that command's.
//
//	go run ./dev/demo           tells the story and removes everything; less than two minutes
//	KEEP=1 go run ./dev/demo    leaves everything running afterwards, until Ctrl-C
//
// As root on Linux the Kubernetes gets a node, on which the story's last part runs pods; elsewhere it leaves that out.
//
// Invariants:
//   - what the story says is checked: a command whose exit status or output is another one fails the demo;
//   - nothing outlives this program, neither a process nor a file, however it ends;
//   - it reads and writes nothing of its user's but the caches of the builds: no kubeconfig, no ~/.pgpass, no variable;
//   - no password is in a process's arguments, nor in what the demo prints.
//
// The exit status is 0 for success, 1 for failure and 130 after Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitInterrupted = 130
)

// errInterrupted is the end that the user, or the system, asked for.
var errInterrupted = errors.New("interrupted")

func main() {
	os.Exit(run(newScreen(os.Stdout), os.Getenv("KEEP")))
}

// run is the demo; it returns the exit status.
func run(screen *screen, keep string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stopOnSignal(cancel, screen)
	go stopWithParent(ctx, cancel)

	s := &stage{screen: screen, end: cancel}
	started := time.Now()
	err := tell(ctx, s, story)
	if err == nil {
		screen.summary(lessons(story, s.noNode), time.Since(started))
		if keep != "" && keep != "0" {
			err = stay(ctx, s)
		}
	}
	interrupted := errors.Is(context.Cause(ctx), errInterrupted)
	if err != nil && !interrupted {
		s.explain(err)
	}
	if cleaning := s.close(); cleaning != nil {
		screen.complain("cleaning up: %v", cleaning)
		return exitFailed
	}
	screen.line("Everything that was started is gone.")
	switch {
	case err == nil:
		return exitOK
	case interrupted:
		return exitInterrupted
	}
	return exitFailed
}

// stopOnSignal ends the story at the first signal. The signals stay caught: a second Ctrl-C doesn't stop the
// cleaning up.
func stopOnSignal(cancel context.CancelCauseFunc, screen *screen) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel(errInterrupted)
		screen.line("\nStopping and cleaning up.")
		for range signals {
			screen.line("Still cleaning up.")
		}
	}()
}

// stopWithParent ends the story when `go run` or a shell that runs this program is gone: it gets no signal then, and
// nobody would look at the rest.
func stopWithParent(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	for os.Getppid() == parent {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	cancel(errInterrupted)
}

// stay says how to go on by hand and waits for a signal, which then is a good end.
func stay(ctx context.Context, s *stage) error {
	s.screen.print(fmt.Sprintf(stayText, s.folder))
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, errInterrupted) {
		return cause
	}
	return nil
}

const stayText = `
KEEP is set: everything goes on running until you press Ctrl-C here. In another terminal:

    cd %s
    export KUBECONFIG=$PWD/kubeconfig PGSERVICEFILE=$PWD/pg_service.conf PATH=$PWD/bin:$PATH

    kubectl get pgdb,pgserver -A                         # the Databases
    kubectl explain pgdb.spec                            # what one may ask for, word for word
    kubectl apply -f invoices.yaml                       # make the second tenant's database again
    kubectl get events -A --field-selector reason=NameConflict
    psql service=admin -c '\l'                           # PostgreSQL as its admin sees it
    tail -f controller.log                               # what the controller says

`
