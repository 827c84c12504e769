package process

import "syscall"

// attributes ends the process with this program, whatever else is asked of it.
func attributes(wanted *syscall.SysProcAttr) *syscall.SysProcAttr {
	if wanted == nil {
		wanted = &syscall.SysProcAttr{}
	}
	wanted.Setpgid, wanted.Pdeathsig = true, syscall.SIGKILL
	return wanted
}
