package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/example/databases/dev/cluster/internal/image"
	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/process"
)

// furnish gives a node its images and, with the first one, the API server the objects that the components of the nodes rely
// on. The user's images are still on their way when it returns: awaitImages waits for them.
func (s *site) furnish(ctx context.Context, config Config, machine *node.Machine) error {
	pause := nodeFile(machine, "pause.tar")
	if err := image.Write(pause, pauseImage, config.Program("pause")); err != nil {
		return err
	}
	if err := Import(ctx, machine, pause); err != nil {
		return err
	}
	go func() {
		var failed error
		_, small := split(config.Images) // the big ones are there
		for _, file := range small {
			begun := time.Now()
			if failed = Import(ctx, machine, file); failed != nil {
				break
			}
			config.Progress("imported %s in %.1f s", file, time.Since(begun).Seconds())
		}
		s.imported <- failed
	}()
	if machine.Number > 1 {
		return nil
	}
	// create, not apply: nobody has made any of them before, and it is quicker.
	create := exec.Command(config.Program("kubectl"), "--kubeconfig", s.adminKubeconfig(),
		"--cache-dir", s.file("kubectl-cache"), "create", "-f", s.file(objectsFile))
	_, err := output(ctx, create)
	return err
}

// ImageCommand returns containerd's own client for the images of a node's pods, to be given a subcommand.
func ImageCommand(machine *node.Machine, arguments ...string) *exec.Cmd {
	line := append(machine.Enter(), "env", "TMPDIR=/run/tmp",
		"ctr", "--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io", "images")
	line = append(line, arguments...)
	return exec.Command(line[0], line[1:]...)
}

// Import imports an archive of images into a node.
func Import(ctx context.Context, machine *node.Machine, file string) error {
	archive, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("import an image: %w", err)
	}
	defer archive.Close()
	command := ImageCommand(machine, "import", "-") // the node need not see the file
	command.Stdin = archive
	if _, err := output(ctx, command); err != nil {
		return fmt.Errorf("import image %s: %w", file, err)
	}
	return nil
}

// output runs a command that ends with this program or the context, and returns what it wrote. An error says what the
// command said.
func output(ctx context.Context, command *exec.Cmd) (string, error) {
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	command.WaitDelay = 5 * time.Second // a child that holds the output must not hold us
	if err := process.Start(command); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	if err := command.Wait(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// awaitNode waits until pods can run: the node says so, and names resolve, on the first node through the services' network,
// which the host reaches by that one.
func (s *site) awaitNode(ctx context.Context, machine *node.Machine) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	probe, err := newProbe(s.authority.Certificate, s.identity())
	if err != nil {
		return err
	}
	server := machine.Address()
	if machine.Number == 1 {
		server = s.network().DNS()
	}
	for _, step := range []struct {
		what  string
		check func() error
	}{
		{"node " + machine.Name, func() error { return probe.nodeReady(ctx, s.url(apiServer, 0)+"/api/v1/nodes/"+machine.Name) }},
		{"the DNS of " + machine.Name, func() error { return s.resolves(ctx, server) }},
	} {
		if err := poll(ctx, step.check); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// awaitImages waits until the user's images are in every node.
func (s *site) awaitImages(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not there after %s", startLimit))
	defer cancel()
	for range s.nodes {
		select {
		case err := <-s.imported:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("images: %w", context.Cause(ctx))
		}
	}
	return nil
}

// nodeReady returns nil if the node at this address of the API server says that it is ready.
func (p *probe) nodeReady(ctx context.Context, url string) error {
	body, err := p.get(ctx, url)
	if err != nil {
		return err
	}
	var object struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return err
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status == "True" {
			return nil
		}
		return errors.New(condition.Message)
	}
	return errors.New("it has no condition Ready yet")
}

// resolves returns nil if the DNS server at this address knows the API server.
func (s *site) resolves(ctx context.Context, server netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(server.String(), "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	if err == nil && !slices.Equal(addresses, []string{s.apiService()}) {
		err = fmt.Errorf("kubernetes.default resolves to %q", addresses)
	}
	return err
}
