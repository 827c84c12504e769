// Command cluster runs a real Kubernetes control plane on this machine, from nothing but Go modules: no container
// runtime, no registry, no root. It builds etcd and Kubernetes once, into the user's cache, and then starts a cluster
// in a few seconds.
//
//	cluster build     builds the programs and prints their folder
//	cluster start     starts a cluster that goes on running
//	cluster status    shows a line for each component; fails unless all are healthy
//	cluster stop      stops it
//	cluster kubectl   runs the kubectl that belongs to it
//	cluster run       runs a cluster until a signal comes, or its standard input closes
//	cluster image     imports images into the cluster's nodes, or lists those that one has
//	cluster node      runs a command on a node, cuts it off the network, and joins it again
//
// With --node, start and run give the cluster a node, on which pods run, and with --nodes several. That needs Linux, root and
// the programs that `dev/setup node` installs.
//
// Invariants: nothing of a cluster outlives it, neither a process nor a folder, even if this program is killed; what
// other programs read is on standard output, what people read on standard error; the exit status is 0 for success,
// 1 for failure and 2 for a wrong command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/example/databases/dev/cluster/internal/build"
	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/process"
)

const usage = `usage: cluster COMMAND [FLAGS]

  build                    build etcd and Kubernetes, print the folder of the programs
  start                    start a cluster that goes on running
  status                   show a line for each component; exit status 0 if all are healthy
  stop                     stop the cluster and remove its files
  kubectl [--] ARGUMENTS   run kubectl against the cluster
  run                      run a cluster until a signal comes; prints KUBECONFIG=<path> when it is ready
  image import FILE...     import image archives, as "docker save" writes them, into all of the cluster's nodes
  image list               list a node's images
  node exec -- COMMAND     run a command in a node's namespaces: its processes, mounts and network
  node cut                 cut a node off the API server and the other nodes; what runs on it goes on
  node join                undo that

With --node, start and run give the cluster a node for pods, and with --nodes NUMBER up to 3 of them: node-1, node-2, node-3.
That needs Linux, root and "dev/setup node". A volume is on one node for good. The commands for a node take --node NAME;
without it they mean node-1, through which this machine reaches the addresses of services.
"cluster COMMAND --help" shows a command's flags.
`

// errSilent makes the exit status 1; what is wrong has been said.
var errSilent = errors.New("failed")

// usageError is a wrong command line.
type usageError struct{ error }

var commands = map[string]func(context.Context, []string) error{
	"build":   buildCommand,
	"start":   startCommand,
	"status":  statusCommand,
	"stop":    stopCommand,
	"kubectl": kubectlCommand,
	"run":     runCommand,
	"image":   imageCommand,
	"node":    nodeCommand,
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == process.GuardCommand {
		if errors.Join(process.RunGuard(os.Args[2], os.Stdin), node.Remove(os.Args[2])) != nil {
			os.Exit(1) // nobody is left to be told more
		}
		return
	}
	if len(os.Args) == 4 && os.Args[1] == node.InitCommand {
		fmt.Fprintln(os.Stderr, node.RunInit(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(execute(os.Args[1:]))
}

func execute(arguments []string) int {
	// The signals stay caught to the end: a second Ctrl-C must not interrupt cleaning up.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if arguments[0] == "help" || arguments[0] == "--help" || arguments[0] == "-h" {
		fmt.Print(usage)
		return 0
	}
	command, ok := commands[arguments[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "cluster: there is no command %q\n%s", arguments[0], usage)
		return 2
	}
	return report(ctx, command(ctx, arguments[1:]))
}

// report says what is wrong and returns the exit status.
func report(ctx context.Context, err error) int {
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errSilent):
		return 1
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "cluster:", wrong)
		return 2
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "cluster: interrupted")
		return 1
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	var ended *process.EndedError
	if errors.As(err, &ended) {
		show("its log ends with", ended.Log)
	}
	var failed *build.Error
	if errors.As(err, &failed) {
		show("the Go command says", failed.Output)
	}
	return 1
}

func show(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "%s:\n", title)
	for _, line := range lines {
		fmt.Fprintf(os.Stderr, "  %s\n", line)
	}
}
