package testenv

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

const (
	mainModule  = "module github.com/example/databases\n"
	readyPrefix = "KUBECONFIG="
)

// cluster is a running `cluster run`. It ends when its standard input does, and so with this process.
type cluster struct {
	kubeconfig string
	command    *exec.Cmd
	stdin      io.Closer
	stopOnce   sync.Once
	stopError  error
}

func startCluster(ctx context.Context, arguments []string) (*cluster, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	command := exec.Command("", append([]string{"run", "--until-stdin-closes"}, arguments...)...)
	command.Env = append(os.Environ(), "DATABASES_CLUSTER_SOURCE="+filepath.Join(root, "dev", "cluster", "kubernetes"))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startProgram(ctx, root, command); err != nil {
		return nil, err
	}
	c := &cluster{command: command, stdin: stdin}
	cancelled := context.AfterFunc(ctx, func() { _ = stdin.Close() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	kubeconfig, ready := strings.CutPrefix(strings.TrimSpace(line), readyPrefix)
	if !cancelled() {
		_ = c.stop()
		return nil, context.Cause(ctx)
	}
	if err != nil || !ready {
		return nil, errors.Join(errors.New("dev/cluster did not become ready: standard error says why"), c.stop())
	}
	c.kubeconfig = kubeconfig
	return c, nil
}

// stop lets the program clean up and waits for its end.
func (c *cluster) stop() error {
	c.stopOnce.Do(func() {
		_ = c.stdin.Close() // a program that has ended has closed it
		if err := c.command.Wait(); err != nil {
			c.stopError = fmt.Errorf("dev/cluster: %w", err)
		}
	})
	return c.stopError
}

// startProgram builds dev/cluster and starts it by the command. The test processes of several packages may do so at
// once, so they take turns until each one's program has started.
func startProgram(ctx context.Context, root string, command *exec.Cmd) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find the user's cache folder: %w", err)
	}
	// Each checkout has its own, so that they don't overwrite each other's.
	folder := filepath.Join(cache, "databases-dev", "cluster", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	program := filepath.Join(folder, "cluster")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "dev", "cluster"), "-buildvcs=false", "-o", program, ".")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build dev/cluster: %w\n%s", err, bytes.TrimSpace(output))
	}
	command.Path = program
	command.Args[0] = program
	command.Err = nil // it had no path when it was made
	return command.Start()
}

// repository finds the root of the checkout: by where this file was compiled or, if paths were trimmed, by the
// working directory, which is the package's folder in a test.
func repository() (string, error) {
	var candidates []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		candidates = append(candidates, filepath.Dir(file))
	}
	if working, err := os.Getwd(); err == nil {
		candidates = append(candidates, working)
	}
	for _, folder := range candidates {
		for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
			gomod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
			if err == nil && strings.HasPrefix(string(gomod), mainModule) {
				return folder, nil
			}
		}
	}
	return "", errors.New("the checkout was not found: run the tests inside it")
}
