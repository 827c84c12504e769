package postgrestest

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that does not outlive this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
}

// startProcess starts cmd, a command of Server.command.
//
// Linux sends the parent-death signal when the thread that forked ends, not
// the process. So one thread is kept for as long as the child runs.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	endWithParent(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // why it ended is in the server's log
		close(p.done)
	}()
	return p, <-started
}

// signal sends sig. A process that has ended already is no error.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// command returns a command of the server's binaries, run as the server's
// user, in its folder: the caller's working directory may be closed to it.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binaries.program(name), args...)
	cmd.Dir = s.folder.dir
	// An environment of its own: no PG* variable or locale of the caller's
	// changes the server, and its messages are in English.
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + s.folder.dir,
		"LC_ALL=C",
		"TZ=UTC",
	}
	if s.binaries.lib != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+s.binaries.lib)
	}
	// In a session of its own, out of reach of a terminal's Ctrl-C, which is for
	// this process to handle.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.folder.account}
	return cmd
}
