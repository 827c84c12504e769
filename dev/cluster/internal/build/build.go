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

	"github.com/example/databases/dev/cluster/internal/lock"
	"github.com/example/databases/dev/cluster/internal/process"
)

// unusedFor is how long a build that nobody uses is kept.
const unusedFor = 30 * 24 * time.Hour

var buildFlags = []string{"-trimpath", "-buildvcs=false"}

// Error says that the Go command could not build the program.
type Error struct {
	What   string
	Status string
	Output []string // what the Go command said
}

func (e *Error) Error() string { return "building " + e.What + " failed: go build: " + e.Status }

// Cache returns the folder where builds and named clusters are kept.
func Cache() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (set $XDG_CACHE_HOME or $HOME): %w", err)
	}
	return filepath.Join(cache, "databases-dev"), nil
}

// Ensure returns the folder that holds a program for every component of a target, building it if it is not in the
// cache yet. It reports to progress, if only by silence.
func Ensure(ctx context.Context, target *Target, progress *os.File) (string, error) {
	source, err := findSource(target)
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
	builds := filepath.Join(cache, target.name)
	folder := filepath.Join(builds, key)
	if used(folder, target.name) {
		return folder, nil
	}
	if err := os.MkdirAll(builds, 0o755); err != nil {
		return "", err
	}
	held, err := lock.Take(ctx, folder+".lock", func() {
		fmt.Fprintln(progress, "waiting for another build of "+target.title+" to end")
	})
	if err != nil {
		return "", err
	}
	defer held.Close()
	if used(folder, target.name) { // the other build made it
		return folder, nil
	}
	if err := create(ctx, source, folder, progress); err != nil {
		return "", err
	}
	prune(builds)
	return folder, nil
}

// used says whether there is a build in the folder, and marks it as used now.
func used(folder, program string) bool {
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
	fmt.Fprintf(progress, "building %s (the first time takes %s on two cores)\n", source.title(), source.Target.firstBuild)
	started := time.Now()
	program := source.Target.name
	if err := compile(ctx, source, ".", filepath.Join(partial, program), progress); err != nil {
		return err
	}
	for _, name := range source.Target.packages {
		if err := compile(ctx, source, "./"+name, filepath.Join(partial, name), progress); err != nil {
			return err
		}
	}
	for _, name := range source.Target.components {
		if err := os.Symlink(program, filepath.Join(partial, name)); err != nil {
			return err
		}
	}
	if err := os.Rename(partial, folder); err != nil {
		return err
	}
	fmt.Fprintf(progress, "built %s in %.0f s\n", source.title(), time.Since(started).Seconds())
	return nil
}

func compile(ctx context.Context, source Source, from, output string, out *os.File) error {
	arguments := append([]string{"build", "-v", "-ldflags", source.linkerFlags(), "-o", output}, buildFlags...)
	command := goCommand(source.Folder, append(arguments, from)...)
	progress := NewProgress(out, source.Target.module())
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
			return &Error{What: source.Target.title, Status: command.ProcessState.String(), Output: progress.complaints()}
		}
		return nil
	case <-ctx.Done():
		// The whole group, since the Go command would leave its compilers running.
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-ended //nolint:errcheck // that it was killed is known
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
		return errors.New("the Go command is needed to build the cluster: install it from go.dev and put it on $PATH")
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
