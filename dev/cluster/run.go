package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/example/databases/dev/cluster/internal/build"
	"github.com/example/databases/dev/cluster/internal/controlplane"
	"github.com/example/databases/dev/cluster/internal/instance"
	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/process"
)

// readyPrefix begins the one line that run writes to its standard output.
const readyPrefix = "KUBECONFIG="

// options are the flags that run and start share.
type options struct {
	components string
	auditLog   string
	port       int
	node       bool
	nodes      int
	images     []string
}

func addOptions(flags *flag.FlagSet) *options {
	o := &options{}
	flags.StringVar(&o.components, "components", strings.Join(controlplane.Default, ","), "the components to run, as a comma-separated `list`")
	flags.StringVar(&o.auditLog, "audit-log", "", "write a line of JSON for each request to this `file`")
	flags.IntVar(&o.port, "port", 0, "the API server's `port`; 0 for any that is free")
	flags.BoolVar(&o.node, "node", false, "give the cluster a node, on which pods run: as --nodes 1")
	flags.IntVar(&o.nodes, "nodes", 0, fmt.Sprintf("give the cluster this `number` of nodes, at most %d; needs Linux, root and dev/setup node", node.Most))
	flags.Func("image", "import this image archive `file` into the nodes before the cluster is ready; may be repeated", func(file string) error {
		o.images = append(o.images, file)
		return nil
	})
	return o
}

// config returns the configuration that the options describe, without a place to run in.
func (o *options) config() (controlplane.Config, error) {
	config := controlplane.Config{
		Port:     o.port,
		Nodes:    o.count(),
		Progress: func(format string, values ...any) { fmt.Fprintf(os.Stderr, format+"\n", values...) },
	}
	for name := range strings.SplitSeq(o.components, ",") {
		name = strings.TrimSpace(name)
		if slices.Contains(controlplane.OfNode, name) {
			return config, usageError{fmt.Errorf("component %s is part of a node: leave it out of --components and say --node or --nodes", name)}
		}
		config.Components = append(config.Components, name)
	}
	if o.nodes < 0 || o.nodes > node.Most {
		return config, usageError{fmt.Errorf("--nodes %d: it must be between 0 and %d", o.nodes, node.Most)}
	}
	if config.Nodes > 0 {
		config.Components = append(config.Components, controlplane.OfNode...)
	}
	if err := config.Check(); err != nil {
		return config, usageError{err}
	}
	if err := o.checkNode(&config); err != nil {
		return config, err
	}
	if o.port < 0 || o.port > 65535 {
		return config, usageError{fmt.Errorf("--port %d: it must be between 0 and 65535", o.port)}
	}
	if o.auditLog == "" {
		return config, nil
	}
	var err error
	if config.AuditLog, err = filepath.Abs(o.auditLog); err != nil {
		return config, err
	}
	if info, err := os.Stat(filepath.Dir(config.AuditLog)); err != nil || !info.IsDir() {
		return config, usageError{fmt.Errorf("--audit-log %s: its folder does not exist", config.AuditLog)}
	}
	return config, nil
}

// count is how many nodes are asked for.
func (o *options) count() int {
	if o.node {
		return max(1, o.nodes)
	}
	return o.nodes
}

// checkNode finds out what stands in a node's way before anything is started.
func (o *options) checkNode(config *controlplane.Config) error {
	if len(o.images) > 0 && config.Nodes == 0 {
		return usageError{errors.New("--image needs --node or --nodes: only a node has images")}
	}
	for _, image := range o.images {
		file, err := filepath.Abs(image)
		if err != nil {
			return err
		}
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return usageError{fmt.Errorf("--image %s: there is no such file", image)}
		}
		config.Images = append(config.Images, file)
	}
	if config.Nodes == 0 {
		return nil
	}
	return node.Check()
}

// findPrograms returns a function that names the file of each component's program, which is built if it is missing.
func findPrograms(ctx context.Context, config controlplane.Config) (func(string) string, error) {
	programs, err := build.Programs(ctx, config.Programs(), os.Stderr)
	return func(name string) string {
		if file, ok := programs[name]; ok {
			return file
		}
		return name // one of the machine's own
	}, err
}

func runCommand(ctx context.Context, arguments []string) error {
	flags := newFlags("run")
	options := addOptions(flags)
	name := flags.String("name", "", "give the cluster a `name`, by which status and stop find it")
	untilClosed := flags.Bool("until-stdin-closes", false, "stop when standard input ends, as it does when its other end is killed")
	if err := parse(flags, arguments, false); err != nil {
		return err
	}
	config, err := options.config()
	if err != nil {
		return err
	}
	if *untilClosed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, it has ended
			cancel()
		}()
	}
	if config.Program, err = findPrograms(ctx, config); err != nil {
		return err
	}
	if config.Cache, err = build.Cache(); err != nil {
		return err
	}
	if err := place(&config, *name); err != nil {
		return err
	}
	defer config.Lock.Close() // closing nothing does nothing
	return controlplane.Run(ctx, config, func(state controlplane.State) error {
		_, err := fmt.Println(readyPrefix + state.Kubeconfig)
		return err
	})
}

// place gives a cluster a folder: its instance's, or a new one if it has no name.
func place(config *controlplane.Config, name string) error {
	if name == "" {
		config.Name = "temporary"
		config.Folder = filepath.Join(os.TempDir(), "databases-cluster-"+strings.ToLower(rand.Text()))
		return nil
	}
	cluster, err := named(name)
	if err != nil {
		return err
	}
	config.Name, config.Folder = name, cluster.Folder
	if config.Lock, err = cluster.Acquire(); err != nil {
		return err
	}
	return node.Remove(config.Folder) // left if its supervisor and its guard were killed
}

func startCommand(ctx context.Context, arguments []string) error {
	flags := newFlags("start")
	name := nameFlag(flags)
	options := addOptions(flags)
	if err := parse(flags, arguments, false); err != nil {
		return err
	}
	config, err := options.config()
	if err != nil {
		return err
	}
	cluster, err := named(*name)
	if err != nil {
		return err
	}
	if err := cluster.MustBeFree(); err != nil {
		return err
	}
	// Built here, where somebody sees the progress.
	if _, err := findPrograms(ctx, config); err != nil {
		return err
	}
	kubeconfig, err := startDetached(ctx, cluster, options.arguments(config))
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "cluster %q runs until `cluster stop --name %s`; use it with\n\n", *name, *name)
	fmt.Printf("export KUBECONFIG=%s\n", kubeconfig)
	return nil
}

// arguments are the flags that say the same to the run command.
func (o *options) arguments(config controlplane.Config) []string {
	arguments := []string{
		"--components", o.components, "--audit-log", config.AuditLog, "--port", fmt.Sprint(o.port), "--nodes", fmt.Sprint(config.Nodes),
	}
	for _, image := range config.Images {
		arguments = append(arguments, "--image", image)
	}
	return arguments
}

// startDetached runs the run command out of reach of this terminal and returns its kubeconfig when the cluster is ready.
func startDetached(ctx context.Context, cluster *instance.Instance, arguments []string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's own file: %w", err)
	}
	log, err := os.OpenFile(cluster.Log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	command := exec.Command(self, append([]string{"run", "--name", cluster.Name}, arguments...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Stderr = log
	out, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("start the supervisor: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Signal(syscall.SIGTERM) })
	defer stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if kubeconfig, ok := strings.CutPrefix(strings.TrimSpace(line), readyPrefix); ok && err == nil && ctx.Err() == nil {
		return kubeconfig, nil
	}
	_ = command.Wait() // it has said why in its log
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	said, _ := process.Tail(cluster.Log, 30)
	for _, line := range said {
		fmt.Fprintln(os.Stderr, line)
	}
	return "", errSilent
}
