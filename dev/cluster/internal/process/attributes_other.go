//go:build !linux

package process

import "syscall"

// attributes leaves it to the guard to end the process.
func attributes(wanted *syscall.SysProcAttr) *syscall.SysProcAttr {
	if wanted == nil {
		wanted = &syscall.SysProcAttr{}
	}
	wanted.Setpgid = true
	return wanted
}
