// Package node makes the machine that a Kubernetes node runs on, out of namespaces of this one: its own processes,
// mounts, network and host name. A veth pair joins it to its host, and one to each other machine of its cluster: what nodes
// and pods send each other never passes the host's network.
//
// The machine's first process (RunInit) does nothing but arrange the mounts and collect orphans. When it ends, the
// kernel ends every process of the machine, containers included, and takes back the mounts with their loop devices and
// the network with its devices, rules and routes. Control groups outlive it, and so may the network of a machine that is cut
// off: Remove removes them, and the network's device on the host.
//
// Addresses are from 198.18.0.0/15, which is set aside for tests of networks (RFC 2544), so that they meet no real one. Each
// cluster takes the first free sixteenth of that; the name of its veth device is how it is taken.
//
// Invariants:
//   - of the host's network nothing is changed but the machine's own veth device, with its address and routes; links between
//     machines, and what cuts a machine off, are in the machines' own networks only;
//   - no mount made for a machine is visible outside it, and no kernel setting of the host is changed;
//   - the machine's own network device is not called eth0, so that no command meant for it can hit the host's;
//   - nothing needs the outside world, and nothing in the machine has a route to it.
package node
