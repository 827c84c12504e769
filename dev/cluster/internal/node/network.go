package node

import (
	"fmt"
	"net/netip"
)

// slots is how many clusters with nodes a machine can have at once.
const slots = 16

// Network is the part of 198.18.0.0/15 that belongs to one cluster.
type Network struct{ slot int }

// at returns the address or range that begins this many 256 addresses after the network's beginning, plus last.
func (n Network) at(blocks, last int) netip.Addr {
	number := n.slot<<13 + blocks<<8 + last
	return netip.AddrFrom4([4]byte{198, byte(18 + number>>16), byte(number >> 8), byte(number)})
}

// Prefix is all of the network.
func (n Network) Prefix() netip.Prefix { return netip.PrefixFrom(n.at(0, 0), 19) }

// Link is the range of the host's and the nodes' own addresses.
func (n Network) Link() netip.Prefix { return netip.PrefixFrom(n.at(0, 0), 24) }

// Host is the address of the host, at which nodes and pods reach the API server.
func (n Network) Host() netip.Addr { return n.at(0, 1) }

// Node is the address of a node, counted from 1.
func (n Network) Node(number int) netip.Addr { return n.at(0, 10+number) }

// Services is the range of the services.
func (n Network) Services() netip.Prefix { return netip.PrefixFrom(n.at(4, 0), 22) }

// API is the address of the service named kubernetes, which is always the first.
func (n Network) API() netip.Addr { return n.at(4, 1) }

// DNS is the address of the DNS service.
func (n Network) DNS() netip.Addr { return n.at(4, 10) }

// Pods is the range of all pods.
func (n Network) Pods() netip.Prefix { return netip.PrefixFrom(n.at(16, 0), 20) }

// PodsOf is the range of the pods on a node, counted from 1.
func (n Network) PodsOf(number int) netip.Prefix { return netip.PrefixFrom(n.at(15+number, 0), 24) }

// Device is the host's end of the veth pair that leads to a node, counted from 1.
func (n Network) Device(number int) string { return fmt.Sprintf("dbnode%d-%d", n.slot, number) }
