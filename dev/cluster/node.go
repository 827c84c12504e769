package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

func nodeFlag(flags *flag.FlagSet) *string {
	return flags.String("node", "", "the node's `name`; the first one's if this is not given")
}

// state returns the state of a running cluster that has nodes.
func (t target) state() (*controlplane.State, error) {
	if *t.kubeconfig != "" {
		state, err := controlplane.ReadState(filepath.Dir(*t.kubeconfig))
		if err != nil {
			return nil, err
		}
		if state == nil || len(state.Nodes) == 0 {
			return nil, fmt.Errorf("--kubeconfig %s: it is not that of a cluster with a node", *t.kubeconfig)
		}
		return state, node.Check()
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
	if len(state.Nodes) == 0 {
		return nil, fmt.Errorf("cluster %q has no node: start it with `cluster start --node --name %s`", *t.name, *t.name)
	}
	return state, node.Check()
}

// machine returns the machine of one of a running cluster's nodes.
func (t target) machine(name string) (*controlplane.State, *node.Machine, error) {
	state, err := t.state()
	if err != nil {
		return nil, nil, err
	}
	if machine := state.Node(name); machine != nil {
		return state, machine, nil
	}
	var names []string
	for _, machine := range state.Nodes {
		names = append(names, machine.Name)
	}
	return nil, nil, fmt.Errorf("--node %s: the cluster has %s", name, strings.Join(names, ", "))
}

func nodeCommand(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 || arguments[0] != "exec" && arguments[0] != "cut" && arguments[0] != "join" {
		return usageError{errors.New("usage: cluster node exec [--name NAME] [--node NODE] -- COMMAND, or cluster node cut|join [--name NAME] [--node NODE]")}
	}
	executes := arguments[0] == "exec"
	flags := newFlags("node " + arguments[0])
	target, name := targetFlags(flags), nodeFlag(flags)
	if err := parse(flags, arguments[1:], executes); err != nil {
		return err
	}
	if executes && flags.NArg() == 0 {
		return usageError{errors.New("node exec: say which command to run")}
	}
	state, machine, err := target.machine(*name)
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "cut":
		return machine.Cut(ctx, state.Others(machine))
	case "join":
		return machine.Rejoin(ctx, state.Others(machine))
	}
	return execInNode(machine, flags.Args())
}

// execInNode becomes the command that it runs, so that its exit status and signals are that command's own.
func execInNode(machine *node.Machine, command []string) error {
	line := append(machine.Enter(), command...)
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
		return usageError{errors.New("usage: cluster image import [--name NAME] FILE..., or cluster image list [--name NAME] [--node NODE]")}
	}
	if arguments[0] == "list" {
		return listImages(arguments[1:])
	}
	flags := newFlags("image import")
	target := targetFlags(flags)
	if err := parse(flags, arguments[1:], true); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return usageError{errors.New("image import: say which archives to import")}
	}
	state, err := target.state()
	if err != nil {
		return err
	}
	for _, file := range flags.Args() {
		for _, machine := range state.Nodes {
			if err := controlplane.Import(ctx, machine, file); err != nil {
				return err
			}
		}
	}
	return nil
}

func listImages(arguments []string) error {
	flags := newFlags("image list")
	target, name := targetFlags(flags), nodeFlag(flags)
	if err := parse(flags, arguments, false); err != nil {
		return err
	}
	_, machine, err := target.machine(*name)
	if err != nil {
		return err
	}
	list := controlplane.ImageCommand(machine, "list", `name~="/"`) // the others are names of the same by digest
	list.Stdout, list.Stderr = os.Stdout, os.Stderr
	return list.Run()
}
