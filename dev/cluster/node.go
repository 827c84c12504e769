package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/example/databases/dev/cluster/internal/controlplane"
	"github.com/example/databases/dev/cluster/internal/node"
)

// target is the cluster that a command for nodes is for.
type target struct{ name, kubeconfig *string }

func targetFlags(flags *flag.FlagSet) target {
	return target{
		name:       nameFlag(flags),
		kubeconfig: flags.String("kubeconfig", "", "the cluster that printed this kubeconfig `file`, instead of one by name"),
	}
}

// machine returns the machine of a running cluster's node.
func (t target) machine() (*node.Machine, error) {
	if *t.kubeconfig != "" {
		state, err := controlplane.ReadState(filepath.Dir(*t.kubeconfig))
		if err != nil {
			return nil, err
		}
		if state == nil || state.Node == nil {
			return nil, fmt.Errorf("--kubeconfig %s: it is not that of a cluster with a node", *t.kubeconfig)
		}
		return state.Node, node.Check()
	}
	cluster, err := named(*t.name)
	if err != nil {
		return nil, err
	}
	state, err := cluster.State()
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, notRunning(*t.name)
	}
	if state.Node == nil {
		return nil, fmt.Errorf("cluster %q has no node: start it with `cluster start --node --name %s`", *t.name, *t.name)
	}
	return state.Node, node.Check()
}

// nodeCommand becomes the command that it runs, so that its exit status and signals are that command's own.
func nodeCommand(_ context.Context, arguments []string) error {
	if len(arguments) == 0 || arguments[0] != "exec" {
		return usageError{errors.New("usage: cluster node exec [--name NAME] -- COMMAND")}
	}
	flags := newFlags("node exec")
	target := targetFlags(flags)
	if err := parse(flags, arguments[1:], true); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return usageError{errors.New("node exec: say which command to run")}
	}
	machine, err := target.machine()
	if err != nil {
		return err
	}
	line := append(machine.Enter(), flags.Args()...)
	program, err := exec.LookPath(line[0])
	if err != nil {
		return err
	}
	if err := syscall.Exec(program, line, os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

func imageCommand(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 || arguments[0] != "import" && arguments[0] != "list" {
		return usageError{errors.New("usage: cluster image import [--name NAME] FILE..., or cluster image list [--name NAME]")}
	}
	importing := arguments[0] == "import"
	flags := newFlags("image " + arguments[0])
	target := targetFlags(flags)
	if err := parse(flags, arguments[1:], importing); err != nil {
		return err
	}
	if importing && flags.NArg() == 0 {
		return usageError{errors.New("image import: say which archives to import")}
	}
	machine, err := target.machine()
	if err != nil {
		return err
	}
	if !importing {
		list := controlplane.ImageCommand(machine, "list", `name~="/"`) // the others are names of the same by digest
		list.Stdout, list.Stderr = os.Stdout, os.Stderr
		return list.Run()
	}
	for _, file := range flags.Args() {
		if err := controlplane.Import(ctx, machine, file); err != nil {
			return err
		}
	}
	return nil
}
