//go:build linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// network is a pod's network namespace, held by the process that the pod's other containers join.
type network struct {
	pod  *corev1.Pod
	hold process
}

// networkOf finds a pod's namespace, and refuses one that might be anybody else's.
func networkOf(ctx context.Context, pod *corev1.Pod) (*network, error) {
	holders, err := find(pod.UID, "the pause container", func(p process) bool { return strings.HasSuffix(p.arguments[0], "pause") })
	if err != nil {
		return nil, err
	}
	n := &network{pod: pod, hold: first(holders)}
	pods, err := n.id()
	if err != nil {
		return nil, err
	}
	// Its parent is the container runtime's, in the node's own network.
	for _, other := range []string{"/proc/self/ns/net", fmt.Sprintf("/proc/%d/ns/net", n.hold.parent)} {
		id, err := os.Readlink(other)
		if err != nil {
			return nil, err
		}
		if id == pods {
			return nil, fmt.Errorf("the pod %s shares the network of its node or host: nothing is changed there", pod.Name)
		}
	}
	addresses, err := n.run(ctx, "ip", "-o", "-4", "address")
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(strings.Fields(addresses), func(field string) bool {
		address, _, _ := strings.Cut(field, "/")
		return pod.Status.PodIP != "" && address == pod.Status.PodIP
	}) {
		return nil, fmt.Errorf("the network found for the pod %s doesn't have its address", pod.Name)
	}
	return n, nil
}

func (n *network) id() (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/%d/ns/net", n.hold.pid))
}

// run runs a program of the host in the pod's network.
func (n *network) run(ctx context.Context, argv ...string) (string, error) {
	now, err := read(n.hold.pid)
	if err != nil || now.started != n.hold.started || !belongs(n.hold.pid, n.pod.UID) {
		return "", errGone
	}
	line := append(n.enter(), argv...)
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s in the network of the pod %s: %w: %s", strings.Join(argv, " "), n.pod.Name, err, strings.TrimSpace(said.String()))
	}
	return string(output), nil
}

// cutChain has the rules of a cut, so that they go all at once.
const cutChain = "FAULT"

// peer is where a pod is cut off from, with a port that answers there.
type peer struct {
	address string
	port    int32
}

func (p peer) String() string { return fmt.Sprintf("%s:%d", p.address, p.port) }

// cutAndLook cuts the pod off, and looks from its inside whether it is: a cut that doesn't cut would pass for a fault that does
// no harm.
func (n *network) cutAndLook(ctx context.Context, peers []peer) (join func(context.Context) error, err error) {
	if open := answering(ctx, n.run, "5", peers); len(open) < len(peers) {
		return nil, fmt.Errorf("before the cut the pod %s reaches %v only, of %v", n.pod.Name, open, peers)
	}
	err = n.cut(ctx, peers)
	if err == nil {
		if open := answering(ctx, n.run, "1", peers); len(open) > 0 {
			err = fmt.Errorf("the cut doesn't cut: the pod %s still reaches %v", n.pod.Name, open)
		}
	}
	if err != nil {
		return nil, errors.Join(err, n.join(ctx))
	}
	return n.join, nil
}

// answering are those to which a TCP connection can be made within some seconds, by programs that run runs.
func answering(ctx context.Context, run func(ctx context.Context, argv ...string) (string, error), seconds string, peers []peer) (open []peer) {
	answers := make([]bool, len(peers))
	var all sync.WaitGroup // at once, as each that is cut takes all the time
	for i, p := range peers {
		all.Go(func() {
			_, err := run(ctx, "timeout", seconds, "bash", "-c", `exec 3<>"/dev/tcp/$0/$1"`, p.address, fmt.Sprint(p.port))
			answers[i] = err == nil
		})
	}
	all.Wait()
	for i, p := range peers {
		if answers[i] {
			open = append(open, p)
		}
	}
	return open
}

// cut drops all that comes from these addresses or goes to them.
func (n *network) cut(ctx context.Context, peers []peer) error {
	commands := [][]string{{"-N", cutChain}}
	for _, p := range peers {
		commands = append(commands, []string{"-A", cutChain, "-s", p.address, "-j", "DROP"}, []string{"-A", cutChain, "-d", p.address, "-j", "DROP"})
	}
	for _, chain := range []string{"INPUT", "OUTPUT"} { // last, so that the cut is at once
		commands = append(commands, []string{"-I", chain, "-j", cutChain})
	}
	for _, arguments := range commands {
		if _, err := n.run(ctx, append([]string{"iptables", "-w"}, arguments...)...); err != nil {
			return err
		}
	}
	return nil
}

// join takes the rules away. A pod that is gone has taken them along.
func (n *network) join(ctx context.Context) error {
	for _, arguments := range [][]string{
		{"-D", "INPUT", "-j", cutChain}, {"-D", "OUTPUT", "-j", cutChain}, {"-F", cutChain}, {"-X", cutChain},
	} {
		_, err := n.run(ctx, append([]string{"iptables", "-w"}, arguments...)...)
		if errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// InNetworkOf is the command line, to be appended, that runs a program of the host in a pod's network.
func InNetworkOf(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	n, err := networkOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	return n.enter(), nil
}

func (n *network) enter() []string {
	return []string{"nsenter", "--target", fmt.Sprint(n.hold.pid), "--net", "--"}
}
