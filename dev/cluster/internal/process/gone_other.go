//go:build !linux

package process

import (
	"errors"
	"os"
	"syscall"
)

func gone(p *os.Process) bool {
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
