package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/pki"
)

const stateFile = "state.json"

// State is what other programs may know of a running cluster. It is kept in the cluster's folder.
type State struct {
	Supervisor int               `json:"supervisor"` // its process
	Kubeconfig string            `json:"kubeconfig"`
	Components []ComponentStatus `json:"components"`
	Nodes      []*node.Machine   `json:"nodes,omitempty"`
}

// Node returns the node of this name, or the first if that is empty. It returns nil if there is none.
func (s *State) Node(name string) *node.Machine {
	for _, machine := range s.Nodes {
		if name == "" || machine.Name == name {
			return machine
		}
	}
	return nil
}

// Others returns the nodes but for this one.
func (s *State) Others(machine *node.Machine) []*node.Machine {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(m *node.Machine) bool { return m.Number == machine.Number })
}

// ComponentStatus is one component of a running cluster.
type ComponentStatus struct {
	Name      string   `json:"name"`
	PID       int      `json:"pid"`
	Address   string   `json:"address"`
	Log       string   `json:"log"`
	Health    string   `json:"health"` // the address of its health check
	Authority string   `json:"authority"`
	Identity  pki.Pair `json:"identity"`
}

// ReadState reads the state of the cluster in a folder. It returns nil and no error if there is none.
func ReadState(folder string) (*State, error) {
	content, err := os.ReadFile(filepath.Join(folder, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var state State
	if err := json.Unmarshal(content, &state); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(folder, stateFile), err)
	}
	return &state, nil
}

// write replaces the state at once, so that readers never see half of it.
func (s *State) write(folder string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(folder, stateFile)
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Check returns nil if the component's process exists and says that it is healthy.
func (c ComponentStatus) Check(ctx context.Context) error {
	if err := syscall.Kill(c.PID, 0); err != nil {
		return fmt.Errorf("process %d: %w", c.PID, err)
	}
	probe, err := newProbe(c.Authority, c.Identity)
	if err != nil {
		return err
	}
	return probe.check(ctx, c.Health)
}
