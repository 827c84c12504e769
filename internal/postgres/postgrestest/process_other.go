//go:build !linux

package postgrestest

import "syscall"

// endWithParent does nothing where there is no parent-death signal: there the
// folder's reaper ends the server.
func endWithParent(*syscall.SysProcAttr) {}
