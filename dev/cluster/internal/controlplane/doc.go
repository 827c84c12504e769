// Package controlplane starts etcd and the components of Kubernetes' control plane, says when they are ready, and
// ends with them.
//
// What a component is and needs stands in one table, components.go. A further one is an entry there: its name, what
// must be ready before it, its arguments and where it answers health checks. Those of a node are in the same table; they
// run in the node's machine (package node), and the files they read are made from the templates.
//
// Invariants:
//   - everything listens on the loopback interface or, with a node, on the cluster's own network; everything but health
//     checks and DNS asks for a certificate of this cluster;
//   - all of a cluster's files but the audit log are in its folder, which is gone when Run returns; unpacked images are
//     kept for other clusters, which never write to them;
//   - a component is started only when those it needs are healthy;
//   - the cluster runs with all its components or not at all: the first to end by itself ends Run with an error.
package controlplane
