package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/example/databases/dev/cluster/internal/image"
	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/process"
)

// furnish gives the node its images, and the API server the objects that the components of the node rely on. The
// user's images are still on their way when it returns: awaitNode waits for them.
func (s *site) furnish(ctx context.Context, config Config) error {
	pause := s.nodeFile("pause.tar")
	if err := image.Write(pause, pauseImage, config.Program("pause")); err != nil {
		return err
	}
	if err := Import(ctx, s.node, pause); err != nil {
		return err
	}
	s.imported = make(chan error, 1)
	go func() {
		var failed error
		_, small := split(config.Images) // the big ones are there
		for _, file := range small {
			begun := time.Now()
			if failed = Import(ctx, s.node, file); failed != nil {
				break
			}
			config.Progress("imported %s in %.1f s", file, time.Since(begun).Seconds())
		}
		s.imported <- failed
	}()
	// create, not apply: nobody has made any of them before, and it is quicker.
	create := exec.Command(config.Program("kubectl"), "--kubeconfig", s.adminKubeconfig(),
		"--cache-dir", s.file("kubectl-cache"), "create", "-f", s.nodeFile(objectsFile))
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

// awaitNode waits until pods can run: the node says so, names resolve through the services' network, and the user's
// images are there.
func (s *site) awaitNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	probe, err := newProbe(s.authority.Certificate, s.identity())
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what  string
		check func() error
	}{
		{"node " + s.node.Name, func() error { return probe.nodeReady(ctx, s.url(apiServer, 0)+"/api/v1/nodes/"+s.node.Name) }},
		{"the cluster's DNS", func() error { return s.resolves(ctx) }},
	} {
		if err := poll(ctx, step.check); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	select {
	case err := <-s.imported:
		return err
	case <-ctx.Done():
		return fmt.Errorf("images: %w", context.Cause(ctx))
	}
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

// resolves returns nil if the DNS service, at its address as pods use it, knows the API server.
func (s *site) resolves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(s.node.Network().DNS().String(), "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	if err == nil && !slices.Equal(addresses, []string{s.apiService()}) {
		err = fmt.Errorf("kubernetes.default resolves to %q", addresses)
	}
	return err
}
