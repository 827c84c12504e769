package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

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
	Progress   func(format string, values ...any)
}

// Check reports what is wrong with a configuration, as early as that can be known.
func (c Config) Check() error {
	_, err := choose(c.Components)
	return err
}

// Run runs a cluster until ctx ends, which is no error, or a component does. It calls ready once all components are
// healthy. When it returns, nothing is left.
func Run(ctx context.Context, config Config, ready func(State) error) (err error) {
	guard, err := process.StartGuard(config.Folder, config.Lock)
	if err != nil {
		return err
	}
	defer func() {
		if released := guard.Release(); err == nil {
			err = released
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
	ports, err := choosePorts(chosen, config.Port)
	if err != nil {
		return err
	}
	site, err := newSite(config, chosen, ports)
	if err != nil {
		return err
	}
	group := process.NewGroup(guard)
	defer group.Stop()

	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failure := make(chan error, 1)
	go func() {
		select {
		case err := <-group.Failed():
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
	state := &State{Supervisor: os.Getpid(), Kubeconfig: s.adminKubeconfig()}
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
	for _, c := range s.components {
		for _, status := range state.Components {
			if slices.Contains(c.needs, status.Name) {
				if err := await(status); err != nil {
					return nil, err
				}
			}
		}
		pid, err := group.Start(c.name, config.Program(c.name), c.arguments(s), s.log(c.name))
		if err != nil {
			return nil, err
		}
		state.Components = append(state.Components, s.status(c, pid))
		if err := state.write(s.folder); err != nil {
			return nil, err
		}
	}
	for _, status := range state.Components {
		if err := await(status); err != nil {
			return nil, err
		}
	}
	return state, s.awaitNamespace(ctx)
}

func (s *site) status(c component, pid int) ComponentStatus {
	status := ComponentStatus{
		Name:      c.name,
		PID:       pid,
		Address:   s.address(c.name, 0),
		Log:       s.log(c.name),
		Health:    s.url(c.name, 0) + c.health,
		Authority: s.authority.Certificate,
		Identity:  s.identity(),
	}
	if c.name == etcd {
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
