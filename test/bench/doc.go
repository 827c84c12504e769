// Command bench measures the program cmd/databases against a bare loop that sends the same SQL, in one run on one
// machine: `go run ./test/bench`. docs/performance.md explains what it measures and how to read the result.
//
// It starts a Kubernetes control plane and PostgreSQL servers of its own and ends them again, also after Ctrl-C.
//
// Invariants:
//   - The program runs as it is built for users, as a process of its own; nothing in it knows of this command.
//   - The loop and the program reach PostgreSQL through the same kind of proxy, as the same kind of weak admin.
//   - Only what doesn't happen at all is an error; no time is.
//   - CPU time and memory are measured on Linux only, and said to be missing elsewhere.
package main
