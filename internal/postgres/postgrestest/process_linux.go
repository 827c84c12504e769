package postgrestest

import "syscall"

// endWithParent makes a server end with this process.
//
// SIGQUIT is PostgreSQL's immediate shutdown: unlike after SIGKILL, the
// postmaster takes its children and its shared memory with it.
func endWithParent(child *syscall.SysProcAttr) { child.Pdeathsig = syscall.SIGQUIT }
