// Package sweep is the crash sweep: for every call that a reconcile makes to PostgreSQL or to the API server, it lets
// that call fail before it takes effect, fail after it took effect, or kills the controller with SIGKILL at it, then
// lets everything run undisturbed, and requires that the outcome is the same as if nothing had happened.
//
// Invariants:
//   - The controller is the real one in a process of its own, on a real API server and a real PostgreSQL.
//   - The sweep fails where a deliberately wrong order of steps isn't noticed.
package sweep
