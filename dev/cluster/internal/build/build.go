package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/example/databases/dev/cluster/internal/process"
)

// program is the name of the file that all components are links to.
const program = "kubernetes"

// unusedFor is how long a build that nobody uses is kept.
const unusedFor = 30 * 24 * time.Hour

// components are the names the program answers to. Those of a node exist on Linux only.
var components = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kube-proxy",
}

var buildFlags = []string{"-trimpath", "-buildvcs=false"}

// Error says that the Go command could not build the program.
type Error struct {
	Status string
	Output []string // what the Go command said
}

func (e *Error) Error() string { return "building Kubernetes failed: go build: " + e.Status }

// Cache returns the folder where builds and named clusters are kept.
func Cache() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (set $XDG_CACHE_HOME or $HOME): %w", err)
	}
	return filepath.Join(cache, "databases-dev"), nil
}

// Ensure returns the folder that holds a program for every component, building it if it is not in the cache yet.
// It reports to progress, if only by silence.
func Ensure(ctx context.Context, progress *os.File) (string, error) {
	source, err := FindSource()
	if err != nil {
		return "", err
	}
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	toolchain, err := toolchain(ctx, source.Folder)
	if err != nil {
		return "", err
	}
	key, err := source.key(toolchain)
	if err != nil {
		return "", err
	}
	builds := filepath.Join(cache, "kubernetes")
	folder := filepath.Join(builds, key)
	if used(folder) {
		return folder, nil
	}
	if err := os.MkdirAll(builds, 0o755); err != nil {
		return "", err
	}
	held, err := lock(ctx, folder+".lock", func() {
		fmt.Fprintln(progress, "waiting for another build of Kubernetes to end")
	})
	if err != nil {
		return "", err
	}
	defer held.Close()
	if used(folder) { // the other build made it
		return folder, nil
	}
	if err := create(ctx, source, folder, progress); err != nil {
		return "", err
	}
	prune(builds)
	return folder, nil
}

// used says whether there is a build in the folder, and marks it as used now.
func used(folder string) bool {
	if _, err := os.Stat(filepath.Join(folder, program)); err != nil {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(folder, now, now) // on failure the build is pruned earlier
	return true
}

// create builds into a folder beside the final one, which it becomes when it is complete.
func create(ctx context.Context, source Source, folder string, progress *os.File) error {
	partial := folder + ".partial" // a fixed name, so that what a killed build left is used up
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	fmt.Fprintf(progress, "building Kubernetes %s (the first time takes about six minutes on two cores)\n", source.Version)
	started := time.Now()
	if err := compile(ctx, source, filepath.Join(partial, program), progress); err != nil {
		return err
	}
	for _, name := range components {
		if err := os.Symlink(program, filepath.Join(partial, name)); err != nil {
			return err
		}
	}
	if err := os.Rename(partial, folder); err != nil {
		return err
	}
	fmt.Fprintf(progress, "built Kubernetes %s in %.0f s\n", source.Version, time.Since(started).Seconds())
	return nil
}

func compile(ctx context.Context, source Source, output string, out *os.File) error {
	arguments := append([]string{"build", "-v", "-ldflags", source.linkerFlags(), "-o", output}, buildFlags...)
	command := goCommand(source.Folder, append(arguments, ".")...)
	progress := NewProgress(out)
	command.Stdout, command.Stderr = progress, progress
	defer progress.Show()()

	if err := process.Start(command); err != nil {
		return needsGo(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return &Error{Status: command.ProcessState.String(), Output: progress.complaints()}
		}
		return nil
	case <-ctx.Done():
		// The whole group, since the Go command would leave its compilers running.
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-ended
		return ctx.Err()
	}
}

// toolchain names the Go version that the module is built with and the system it is built for.
func toolchain(ctx context.Context, folder string) (string, error) {
	command := goCommand(folder, "env", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS")
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		if text := strings.TrimSpace(complaint.String()); text != "" {
			return "", fmt.Errorf("go env: %s", text)
		}
		return "", needsGo(err)
	}
	return string(output), ctx.Err()
}

// goCommand runs the Go command for this machine, whatever the caller's own build is for.
func goCommand(folder string, arguments ...string) *exec.Cmd {
	command := exec.Command("go", arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	return command
}

func needsGo(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("the Go command is needed to build Kubernetes: install it from go.dev and put it on $PATH")
	}
	return err
}

// prune removes builds that nobody has used for long. A cluster that still runs one keeps the file open.
func prune(builds string) {
	entries, err := os.ReadDir(builds)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && entry.IsDir() && time.Since(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(filepath.Join(builds, entry.Name()))
		}
	}
}
