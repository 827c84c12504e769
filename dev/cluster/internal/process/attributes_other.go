//go:build !linux

package process

import "syscall"

// attributes leaves it to the guard to end the process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
