package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

const (
	clusterGrace = 60 * time.Second
	// nodeTimeout is enough to import images the first time.
	nodeTimeout = 4 * time.Minute
)

// startKubernetes builds and starts a Kubernetes, with a node where the machine can have one, and gives the demo its
// kubectl.
func startKubernetes(ctx context.Context, s *stage) error {
	if err := s.build(ctx, "dev/cluster, which starts a Kubernetes", "dev/cluster", "cluster", "."); err != nil {
		return err
	}
	s.noNode = lackForNode()
	if s.noNode == "" {
		if err := s.makeImages(ctx); err != nil {
			return err
		}
	}
	kubectl, err := s.buildKubernetes(ctx)
	if err != nil {
		return err
	}
	if err := os.Symlink(kubectl, s.file(programs+"/kubectl")); err != nil {
		return err
	}
	if s.noNode == "" {
		limited, cancel := context.WithTimeoutCause(ctx, nodeTimeout, fmt.Errorf("it wasn't ready within %s", nodeTimeout))
		defer cancel()
		err := s.screen.working("Starting Kubernetes with a node", func() error { return s.startCluster(limited, true) })
		if err == nil || ctx.Err() != nil {
			return err
		}
		// A container, for one, may not be allowed to do what a node needs.
		s.noNode = "a node doesn't start here: " + strings.TrimPrefix(tail(s.file(clusterLog), 1), "cluster: ")
		if limited.Err() != nil {
			s.noNode = "a node doesn't start here: " + err.Error()
		}
	}
	return s.screen.working("Starting Kubernetes without a node", func() error { return s.startCluster(ctx, false) })
}

// lackForNode says why the machine can't have a node; nothing where nothing is known to be in its way.
func lackForNode() string {
	switch {
	case runtime.GOOS != "linux":
		return "a node for them needs Linux"
	case os.Geteuid() != 0:
		return "a node for them needs root; sudo make demo shows it"
	}
	for _, program := range []string{"containerd", "mmdebstrap"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is missing; make demo installs it on Debian"
		}
	}
	return ""
}

// makeImages makes the archives of the images that the story's pods run. It says why in noNode where that fails, for the
// packages in them come by the network the first time.
func (s *stage) makeImages(ctx context.Context) error {
	if err := s.build(ctx, "dev/images, which makes the pods' images", ".", "images", "./dev/images"); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, s.file(programs+"/images"), "-only", "databases-patroni:dev,postgres:15")
	command.Dir = s.checkout
	command.Env = append(os.Environ(), "GOTMPDIR="+s.folder, "GOWORK=off", "GOFLAGS=")
	var archives bytes.Buffer
	command.Stdout = &archives
	err := interruptible(command, os.Stderr).run(ctx, "make images")
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		s.noNode = "their images could not be made, as was said at the beginning"
	}
	s.images = strings.Fields(archives.String())
	return nil
}

// buildKubernetes returns the path of the kubectl that it builds with the rest.
func (s *stage) buildKubernetes(ctx context.Context) (string, error) {
	build := exec.CommandContext(ctx, s.file(programs+"/cluster"), "build")
	if s.noNode == "" {
		build.Args = append(build.Args, "--node")
	}
	build.Env = append(os.Environ(), s.clusterSource(), "GOTMPDIR="+s.folder)
	var folder bytes.Buffer
	build.Stdout = &folder
	if err := interruptible(build, os.Stderr).run(ctx, "build Kubernetes"); err != nil {
		return "", err
	}
	return filepath.Join(strings.TrimSpace(folder.String()), "kubectl"), nil
}

// clusterSource tells the program cluster, which was built elsewhere, where what it builds is described.
func (s *stage) clusterSource() string {
	return "DATABASES_CLUSTER_SOURCE=" + filepath.Join(s.checkout, "dev/cluster/kubernetes")
}

// startCluster returns when the cluster is healthy. It ends when its standard input does.
func (s *stage) startCluster(ctx context.Context, node bool) error {
	log, err := os.OpenFile(s.file(clusterLog), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	components := "etcd,kube-apiserver,kube-controller-manager"
	command := exec.Command(s.file(programs+"/cluster"), "run", "--until-stdin-closes")
	if node {
		components += ",kube-scheduler"
		command.Args = append(command.Args, "--node")
		for _, image := range s.images {
			command.Args = append(command.Args, "--image="+image)
		}
	}
	command.Args = append(command.Args, "--components="+components)
	command.Env = append(os.Environ(), s.clusterSource(), "TMPDIR="+s.folder)
	command.Stdout, command.Stderr = theirs, log
	in, err := command.StdinPipe()
	if err != nil {
		theirs.Close()
		return err
	}
	var healthy atomic.Bool
	var early error // why it ended before it was healthy, which need not be the story's end
	cluster, err := startService("the Kubernetes cluster", clusterLog, command, func(ended error) {
		if healthy.Load() {
			s.end(ended)
		} else {
			early = ended
		}
	})
	theirs.Close()
	if err != nil {
		return err
	}
	stop := func() { _ = in.Close() }
	s.atEnd(func() error { return cluster.stop(stop, clusterGrace) })
	end := func() { // one that hangs, too
		stop()
		select {
		case <-cluster.ended:
		case <-time.After(clusterGrace):
			_ = cluster.process.Process.Kill()
		}
	}
	defer context.AfterFunc(ctx, end)()
	line, err := bufio.NewReader(out).ReadString('\n')
	kubeconfig, ready := strings.CutPrefix(strings.TrimSpace(line), "KUBECONFIG=")
	if err != nil || !ready || ctx.Err() != nil {
		end()
		<-cluster.ended // then the cause is known, and its log is whole
		return cmp.Or(context.Cause(ctx), early, err, errors.New("the Kubernetes cluster doesn't say how it is reached"))
	}
	healthy.Store(true)
	s.kubernetes = time.Now()
	return os.Symlink(kubeconfig, s.file("kubeconfig"))
}
