// Package build makes the programs of a cluster: the one of etcd and Kubernetes, and the one that a node needs
// besides. It makes each once for each version of its sources and keeps it in the user's cache.
//
// Invariants:
//   - a build's folder appears whole or not at all, and never changes afterwards;
//   - its name is a digest of all that decides what is in it: sources, versions, flags, system and Go;
//   - the Kubernetes version is written in kubernetes/go.mod and nowhere else;
//   - of several programs that want the same build, one builds and the others wait.
package build
