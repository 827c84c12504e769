// Package e2e runs the program `databases` with a real cluster: API server, two nodes, pods, volumes and PostgreSQL images.
// `make e2e` runs it; it needs Linux, root and what `dev/setup node` installs. Each test is a case, for which it prints
// a line; -run chooses some. E2E_NODES=1 gives it one node, for measuring a start.
//
// Invariants:
//   - Nothing is faked but faults that can't be had otherwise, which are put between the program and the API server.
//   - What is asserted is what a user sees: objects, SQL through the Service from a pod, and the API server's audit log.
//   - The cases share a cluster and are kept apart by namespaces; one that fails leaves its story in the output.
package e2e
