package node

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
)

// InitCommand is the first argument that makes this program a machine's first process; the machine's name and folder
// follow. The program's main function must then call RunInit.
const InitCommand = "node-init"

// uplink is the machine's own end of the veth pair that leads to the host.
const uplink = "uplink"

// Most is how many machines a cluster can have.
const Most = 3

// covered are the folders of the host that a machine has its own of, in its folder.
var covered = []string{"/var/lib", "/var/log"}

// Visible says whether a machine sees this file of the host.
func Visible(file string) bool {
	for _, hidden := range append(slices.Clone(covered), "/run", "/var/run", "/proc", "/sys") {
		if strings.HasPrefix(file+"/", hidden+"/") {
			return false
		}
	}
	return true
}

// Config says what machine to make.
type Config struct {
	Name   string   // of the node
	Number int      // of the node in its cluster, from 1
	First  *Machine // of the same cluster, whose network it joins; nil for the first itself
	Folder string   // of the cluster
	Log    string   // the file for what its first process says
	Cache  string   // the folder of the programs and of what else its components need
}

// Machine is what a node runs on.
type Machine struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	PID    int    `json:"pid"` // its first process
	Slot   int    `json:"slot"`
	Folder string `json:"folder"`
	Cgroup string `json:"cgroup"` // below which its containers' control groups are
	alias  string // of its device on the host
}

// Network returns the network of the machine's cluster.
func (m *Machine) Network() Network { return Network{slot: m.Slot} }

// Address is where the node is found.
func (m *Machine) Address() netip.Addr { return m.Network().Node(m.Number) }

// Enter returns the command that runs another one, to be appended, in these of the machine's namespaces: mount, uts,
// ipc, net and pid, or all of them if none is named.
func (m *Machine) Enter(namespaces ...string) []string {
	command := []string{"nsenter", "--target", fmt.Sprint(m.PID)}
	if len(namespaces) == 0 {
		namespaces = []string{"mount", "uts", "ipc", "net", "pid"}
	}
	for _, namespace := range namespaces {
		command = append(command, "--"+namespace)
	}
	return append(command, "--")
}

// parseRoutes reads the ranges of a /proc/net/route, but for the default route's.
func parseRoutes(table string) []netip.Prefix {
	var routes []netip.Prefix
	for line := range strings.Lines(table) {
		fields := strings.Fields(line) // device, destination, gateway, flags, ..., the mask as the eighth
		if len(fields) < 8 {
			continue
		}
		destination, err := hex.DecodeString(fields[1])
		if err != nil || len(destination) != 4 {
			continue // the heading
		}
		mask, err := hex.DecodeString(fields[7])
		if err != nil || len(mask) != 4 {
			continue
		}
		ones := bits.OnesCount32(binary.LittleEndian.Uint32(mask))
		if ones == 0 {
			continue
		}
		var address [4]byte // the table has the bytes in the machine's order
		binary.BigEndian.PutUint32(address[:], binary.LittleEndian.Uint32(destination))
		routes = append(routes, netip.PrefixFrom(netip.AddrFrom4(address), ones))
	}
	return routes
}
