// Package manager assembles the program: the controllers, the servers they speak to and the controller-runtime manager
// that runs them.
//
// Invariants:
//   - Nothing is decided here; what depends on a resource's state is in the controllers.
//   - Reconciles in flight when the context ends are given their grace; where the Lease is lost before they are given none.
//   - To be stopped is no failure, at whatever moment it comes; before the first reconcile nothing is waited for.
package manager
