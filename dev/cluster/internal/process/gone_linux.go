package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// gone says whether a process has ended. One that nobody collects has ended too: in many containers the first
// process does not collect orphans.
func gone(p *os.Process) bool {
	if errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	// The state follows the program's name, which is in parentheses and may hold some itself.
	state := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(state, []byte(" Z"))
}
