package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/example/databases/dev/cluster/internal/build"
	"github.com/example/databases/dev/cluster/internal/instance"
)

// parse parses a command's flags. Arguments are left for those commands that take some.
func parse(flags *flag.FlagSet, arguments []string, takesArguments bool) error {
	flags.SetOutput(os.Stderr)
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{fmt.Errorf("%w: see `cluster %s --help`", err, flags.Name())}
	}
	if !takesArguments && flags.NArg() > 0 {
		return usageError{fmt.Errorf("%s takes no argument %q", flags.Name(), flags.Arg(0))}
	}
	return nil
}

func newFlags(command string) *flag.FlagSet { return flag.NewFlagSet(command, flag.ContinueOnError) }

func nameFlag(flags *flag.FlagSet) *string {
	return flags.String("name", "dev", "the cluster's `name`, of which each user may have several")
}

func named(name string) (*instance.Instance, error) {
	cache, err := build.Cache()
	if err != nil {
		return nil, err
	}
	return instance.New(cache, name)
}

func buildCommand(ctx context.Context, arguments []string) error {
	flags := newFlags("build")
	withNode := flags.Bool("node", false, "build what a node needs, too")
	if err := parse(flags, arguments, false); err != nil {
		return err
	}
	if *withNode {
		if _, err := build.Ensure(ctx, build.Node, os.Stderr); err != nil {
			return err
		}
	}
	folder, err := build.Ensure(ctx, build.Kubernetes, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(folder)
	return nil
}

func statusCommand(ctx context.Context, arguments []string) error {
	flags := newFlags("status")
	name := nameFlag(flags)
	if err := parse(flags, arguments, false); err != nil {
		return err
	}
	cluster, err := named(*name)
	if err != nil {
		return err
	}
	state, err := cluster.State()
	if err != nil {
		return err
	}
	if state == nil {
		return notRunning(*name)
	}
	healthy := true
	for _, component := range state.Components {
		condition := "healthy"
		if err := component.Check(ctx); err != nil {
			condition = fmt.Sprintf("unhealthy (%s)", err)
			healthy = false
		}
		fmt.Printf("%-24s pid %-8d %-16s %s\n", component.Name, component.PID, component.Address, condition)
	}
	if !healthy {
		return errSilent
	}
	return nil
}

func notRunning(name string) error {
	return fmt.Errorf("cluster %q is not running: start it with `cluster start --name %s`", name, name)
}

func stopCommand(ctx context.Context, arguments []string) error {
	flags := newFlags("stop")
	name := nameFlag(flags)
	if err := parse(flags, arguments, false); err != nil {
		return err
	}
	cluster, err := named(*name)
	if err != nil {
		return err
	}
	running, err := cluster.Running()
	if err != nil {
		return err
	}
	if !running {
		fmt.Fprintf(os.Stderr, "cluster %q is not running\n", *name)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := cluster.Stop(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "cluster %q has stopped\n", *name)
	return nil
}

// kubectlCommand becomes kubectl, so that its exit status and signals are kubectl's own.
func kubectlCommand(ctx context.Context, arguments []string) error {
	flags := newFlags("kubectl")
	name := nameFlag(flags)
	if err := parse(flags, arguments, true); err != nil {
		return err
	}
	cluster, err := named(*name)
	if err != nil {
		return err
	}
	state, err := cluster.State()
	if err != nil {
		return err
	}
	if state == nil { // and kubectl must not work on whatever cluster its user's own configuration names
		return notRunning(*name)
	}
	if err := os.Setenv("KUBECONFIG", state.Kubeconfig); err != nil {
		return err
	}
	folder, err := build.Ensure(ctx, build.Kubernetes, os.Stderr)
	if err != nil {
		return err
	}
	program := filepath.Join(folder, "kubectl")
	if err := syscall.Exec(program, append([]string{"kubectl"}, flags.Args()...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}
