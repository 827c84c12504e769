//go:build !linux

package node

import (
	"context"
	"errors"

	"github.com/example/databases/dev/cluster/internal/process"
)

// CNI is where Debian puts the plugins that make pods' networks.
const CNI = "/usr/lib/cni"

var errNotLinux = errors.New("a node needs Linux, where containers exist: run this without --node")

// Check says why this machine can't run a node.
func Check() error { return errNotLinux }

// Start fails.
func Start(context.Context, *process.Group, Config) (*Machine, error) { return nil, errNotLinux }

// Link fails.
func (m *Machine) Link(context.Context, *Machine) error { return errNotLinux }

// Cut fails.
func (m *Machine) Cut(context.Context, []*Machine) error { return errNotLinux }

// Rejoin fails.
func (m *Machine) Rejoin(context.Context, []*Machine) error { return errNotLinux }

// RunInit fails.
func RunInit(string, string) error { return errNotLinux }

// Remove has nothing to remove.
func Remove(string) error { return nil }
