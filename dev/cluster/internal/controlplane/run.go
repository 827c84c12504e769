package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/pki"
	"github.com/example/databases/dev/cluster/internal/process"
)

// startLimit is how long a component may take to become healthy, on a machine that is busy with other things.
const startLimit = 2 * time.Minute

// Config says what cluster to run.
type Config struct {
	Name       string
	Folder     string   // must not exist
	Lock       *os.File // stays taken until everything is cleaned up; may be nil
	Components []string
	Program    func(component string) string // the file of its program
	Port       int                           // of the API server; 0 for any
	AuditLog   string                        // an absolute path, or nothing
	Nodes      int                           // how many, if the components are those of a node too
	Images     []string                      // archives of images for the nodes
	Cache      string                        // the folder of the programs, in which big images are kept unpacked
	Progress   func(format string, values ...any)
}

// Check reports what is wrong with a configuration, as early as that can be known.
func (c Config) Check() error {
	_, err := choose(c.Components)
	return err
}

// Programs names the programs that must be built for it.
func (c Config) Programs() []string {
	if !withNode(c.Components) {
		return c.Components
	}
	built := slices.DeleteFunc(slices.Clone(c.Components), func(name string) bool { return name == containerd })
	return append(built, "kubectl", "pause")
}

// Run runs a cluster until ctx ends, which is no error, or a component does. It calls ready once all components are
// healthy. When it returns, nothing is left.
func Run(ctx context.Context, config Config, ready func(State) error) (err error) {
	guard, err := process.StartGuard(config.Folder, config.Lock)
	if err != nil {
		return err
	}
	defer func() {
		// What the guard has done already is no error, and it may have been killed.
		cleaned := errors.Join(guard.Release(), node.Remove(config.Folder))
		if err == nil {
			err = cleaned
		}
	}()
	if err := os.Mkdir(config.Folder, 0o700); err != nil {
		return fmt.Errorf("make the cluster's folder: %w", err)
	}
	// A port may be taken between its being found free and its component's listening on it.
	for range 3 {
		if err = runOnce(ctx, config, guard, ready); !portTaken(err) {
			return err
		}
		config.Progress("a port was taken meanwhile, trying others")
		if err := empty(config.Folder); err != nil {
			return err
		}
	}
	return err
}

func runOnce(ctx context.Context, config Config, guard *process.Guard, ready func(State) error) error {
	chosen, err := choose(config.Components)
	if err != nil {
		return err
	}
	group := process.NewGroup(guard)
	defer group.Stop()
	site, err := prepare(ctx, config, chosen, group)
	if err != nil {
		return startError(ctx, ctx, err)
	}

	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failure := make(chan error, 1)
	go func() {
		select {
		case err := <-group.Failed():
			err = cause(group, err)
			failure <- err
			cancel(err)
		case <-guard.Ended():
			err := errors.New("the guard that cleans up after the cluster was killed")
			failure <- err
			cancel(err)
		case <-starting.Done():
		}
	}()
	state, err := site.start(starting, config, group)
	if err != nil {
		return startError(ctx, starting, err)
	}
	if err := ready(*state); err != nil {
		return err
	}
	select {
	case err := <-failure:
		return err
	case <-ctx.Done():
		return nil
	}
}

// cause returns what made the first process end: the components of a node end with its machine, in any order.
func cause(group *process.Group, first error) error {
	time.Sleep(100 * time.Millisecond)
	for number := range node.Most {
		if machine := group.Ended(nodeName(number + 1)); machine != nil {
			return machine
		}
	}
	return first
}

// prepare makes the place that the components run in: the nodes' machines, the ports and the files.
func prepare(ctx context.Context, config Config, chosen []component, group *process.Group) (*site, error) {
	var machines []*node.Machine
	address := loopback
	if withNode(config.Components) {
		var err error
		if machines, err = makeMachines(ctx, config, group); err != nil {
			return nil, err
		}
		address = machines[0].Network().Host().String()
	}
	ports, err := choosePorts(chosen, config.Port, address)
	if err != nil {
		return nil, err
	}
	return newSite(config, chosen, ports, machines)
}

// makeMachines makes the machines of the nodes, each linked to those before it and with the big images in its containerd's
// folder.
func makeMachines(ctx context.Context, config Config, group *process.Group) ([]*node.Machine, error) {
	logs := filepath.Join(config.Folder, "log")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	big, _ := split(config.Images)
	var machines []*node.Machine
	for number := 1; number <= config.Nodes; number++ {
		name := nodeName(number)
		wanted := node.Config{Name: name, Number: number, Folder: config.Folder, Cache: config.Cache, Log: filepath.Join(logs, name+".log")}
		if number > 1 {
			wanted.First = machines[0]
		}
		machine, err := node.Start(ctx, group, wanted)
		if err != nil {
			return nil, err
		}
		for _, other := range machines {
			if err := machine.Link(ctx, other); err != nil {
				return nil, err
			}
		}
		machines = append(machines, machine)
		if len(big) == 0 {
			continue
		}
		stock := stock{folder: filepath.Join(config.Cache, "unpacked"), log: filepath.Join(logs, "import.log"), machine: machine}
		if err := stock.fill(ctx, big, config.Progress); err != nil {
			return nil, err
		}
	}
	return machines, nil
}

// startError tells why a start failed: since its context was cancelled, the error itself may say only that.
func startError(ctx, starting context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil // asked to stop before it was ready
	case starting.Err() != nil:
		return context.Cause(starting)
	default:
		return err
	}
}

// start starts the components, each when those it needs are healthy, and returns when all are.
func (s *site) start(ctx context.Context, config Config, group *process.Group) (*State, error) {
	state := &State{Supervisor: os.Getpid(), Kubeconfig: s.adminKubeconfig(), Nodes: s.nodes}
	healthy := map[string]bool{}
	begun := time.Now()
	await := func(status ComponentStatus) error {
		if healthy[status.Name] {
			return nil
		}
		if err := status.await(ctx); err != nil {
			return err
		}
		healthy[status.Name] = true
		config.Progress("%s is healthy after %.1f s", status.Name, time.Since(begun).Seconds())
		return nil
	}
	units := s.units()
	for _, u := range units {
		for j, status := range state.Components {
			// What a component needs of a node is on its own.
			if earlier := units[j]; slices.Contains(u.needs, earlier.name) && (earlier.machine == nil || earlier.machine == u.machine) {
				if err := await(status); err != nil {
					return nil, err
				}
			}
		}
		if err := s.launch(ctx, u, config, group, state); err != nil {
			return nil, err
		}
	}
	for _, status := range state.Components {
		if err := await(status); err != nil {
			return nil, err
		}
	}
	if err := s.awaitNamespace(ctx); err != nil {
		return nil, err
	}
	for _, machine := range s.nodes {
		if err := s.awaitNode(ctx, machine); err != nil {
			return nil, err
		}
		config.Progress("%s is ready after %.1f s", machine.Name, time.Since(begun).Seconds())
	}
	return state, s.awaitImages(ctx)
}

// launch starts a component in its place and adds it to the state.
func (s *site) launch(ctx context.Context, u unit, config Config, group *process.Group, state *State) error {
	if u.name == kubelet {
		if err := s.furnish(ctx, config, u.machine); err != nil {
			return err
		}
	}
	pid, err := group.StartCommand(u.id(), s.command(u, config.Program(u.name)), s.log(u.id()))
	if err != nil {
		return err
	}
	state.Components = append(state.Components, s.status(u, pid))
	return state.write(s.folder)
}

// command is what runs a component, on its node if it belongs to one.
func (s *site) command(u unit, program string) *exec.Cmd {
	var line []string
	if u.machine == nil {
		line = append([]string{program}, u.arguments(s)...)
	} else {
		// The host's folder for temporary files must not be left with theirs.
		line = append(u.machine.Enter(), "env", "TMPDIR=/run/tmp", program)
		line = append(line, u.inNode(s, u.machine)...)
	}
	command := exec.Command(line[0], line[1:]...)
	command.Args[0] = u.id()
	return command
}

func (s *site) status(u unit, pid int) ComponentStatus {
	status := ComponentStatus{
		Name:      u.id(),
		PID:       pid,
		Address:   s.address(u.name, 0),
		Log:       s.log(u.id()),
		Authority: s.authority.Certificate,
		Identity:  s.identity(),
	}
	if u.machine != nil {
		status.Address = fmt.Sprintf("%s:%d", u.machine.Address(), s.ports[u.name][0])
	}
	status.Health = "https://" + status.Address + u.health
	if u.plain {
		status.Health = "http://" + status.Address + u.health
	}
	if u.name == etcd {
		status.Authority, status.Identity = s.etcdAuthority.Certificate, s.etcdClient
	}
	return status
}

// identity is the administrator's.
func (s *site) identity() pki.Pair {
	return pki.Pair{Certificate: s.file("pki/kubeconfig.crt"), Key: s.file("pki/kubeconfig.key")}
}

func (c ComponentStatus) await(ctx context.Context) error {
	probe, err := newProbe(c.Authority, c.Identity)
	if err != nil {
		return err
	}
	if err := probe.await(ctx, c.Health, startLimit); err != nil {
		return fmt.Errorf("%s did not start: %w", c.Name, err)
	}
	return nil
}

// awaitNamespace waits for what users expect of a cluster and get a moment after its components are healthy: the
// default namespace and its service account.
func (s *site) awaitNamespace(ctx context.Context) error {
	probe, err := newProbe(s.authority.Certificate, s.identity())
	if err != nil {
		return err
	}
	object := "/api/v1/namespaces/default"
	if s.has(controllerManager) {
		object += "/serviceaccounts/default"
	}
	if err := probe.await(ctx, s.url(apiServer, 0)+object, startLimit); err != nil {
		return fmt.Errorf("the default namespace was not made: %w", err)
	}
	return nil
}

// portTaken says whether a component ended because somebody else listens on its port.
func portTaken(err error) bool {
	var ended *process.EndedError
	return errors.As(err, &ended) && strings.Contains(strings.Join(ended.Log, "\n"), "address already in use")
}

// empty removes what is in a folder, but not the folder.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(folder + string(os.PathSeparator) + entry.Name()); err != nil {
			return err
		}
	}
	return nil
}
