// Package faults breaks a dedicated Database in many ways while an application writes to it, and tells what that
// application would tell: whether a row is lost that was acknowledged, how long no write was, and whether there were ever two
// primaries to write to.
//
// A Writer is the application: a process of its own in the network of some pod, which knows nothing but the Secret. A Poller
// looks at who is behind the Service. A Fault does one harm to the primary and makes it good again. A Round is all of them
// together; a Report is many rounds.
//
// Faults are done from the host to the pod's own processes and to the pod's own network namespace. What belongs to a pod
// is known by the control group that the kubelet made for it, which has the pod's UID in its name.
//
// Invariants:
//   - a process gets a signal only while it is in the control group of the pod that is meant;
//   - network rules are made only in a namespace that is neither the host's nor the node's and that has the pod's address;
//   - a cut is done only once the pod itself reaches nobody any more from whom it is cut off;
//   - an acknowledged row stays in the Ledger for all rounds to come: it may be lost by a later fault than its own;
//   - passwords go through standard input and memory, and are in no argument, error or report.
package faults
