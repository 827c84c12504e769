package process

import (
	"os/exec"
	"runtime"
	"sync"
)

// starter is the goroutine that starts every process. The kernel ties a child to the thread that started it, so
// that thread must last as long as the program: it is locked to a goroutine that never ends.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range work {
			do()
		}
	}()
	return work
})

// Start starts cmd in a process group of its own, out of reach of a terminal's Ctrl-C. Where the system can do
// that, cmd dies with this program.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes(cmd.SysProcAttr)
	result := make(chan error)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}
