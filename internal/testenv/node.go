package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Node is one of the nodes that WithNode or WithNodes gave to an environment.
type Node struct {
	name       string
	program    string
	kubeconfig string
}

// Node returns the node of this name, as a pod's spec.nodeName is. Whether there is one shows when it is used.
func (e *Environment) Node(name string) Node {
	return Node{name: name, program: e.cluster.command.Path, kubeconfig: e.Kubeconfig}
}

// Exec runs a command in the node's namespaces, as root, and returns what it wrote. It needs no network, so it works in a node
// that is cut off too.
func (n Node) Exec(ctx context.Context, command ...string) (string, error) {
	return n.run(ctx, "exec", append([]string{"--"}, command...)...)
}

// Cut takes the node off the network: off the API server and the other nodes. What runs on it goes on running.
func (n Node) Cut(ctx context.Context) error {
	_, err := n.run(ctx, "cut")
	return err
}

// Join undoes Cut. Where nothing was cut it does nothing.
func (n Node) Join(ctx context.Context) error {
	_, err := n.run(ctx, "join")
	return err
}

func (n Node) run(ctx context.Context, command string, arguments ...string) (string, error) {
	line := append([]string{"node", command, "--kubeconfig", n.kubeconfig, "--node", n.name}, arguments...)
	var output, said bytes.Buffer
	program := exec.CommandContext(ctx, n.program, line...)
	program.Stdout, program.Stderr = &output, &said
	if err := program.Run(); err != nil {
		return output.String(), fmt.Errorf("%s on %s: %w: %s", command, n.name, err, strings.TrimSpace(said.String()))
	}
	return output.String(), nil
}
