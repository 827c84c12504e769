package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// connect makes the veth pair between the first machine of a cluster and the host, in the first free network.
func (m *Machine) connect(ctx context.Context) error {
	used, err := usedRanges()
	if err != nil {
		return err
	}
	for slot := range slots {
		m.Slot = slot
		if overlaps(used, m.Network().Prefix()) {
			continue
		}
		err := m.addUplink(ctx)
		if err != nil && strings.Contains(err.Error(), "File exists") {
			continue // another cluster has just taken it
		}
		if err != nil {
			return err
		}
		return m.configure(ctx)
	}
	return fmt.Errorf("no network is free in 198.18.0.0/15: %d clusters with nodes are possible at once", slots)
}

// join makes the veth pair between a further machine and the host. The first one's pair says that the network is taken.
func (m *Machine) join(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := m.addUplink(ctx)
		if err == nil {
			return m.configure(ctx)
		}
		if tries == 50 || !strings.Contains(err.Error(), "File exists") {
			return err
		}
		time.Sleep(100 * time.Millisecond) // the cluster that had the network before is not quite gone
	}
}

func (m *Machine) addUplink(ctx context.Context) error {
	device := m.Network().Device(m.Number)
	return run(ctx, "ip", "link", "add", device, "type", "veth", "peer", "name", uplink, "netns", fmt.Sprint(m.PID))
}

func (m *Machine) configure(ctx context.Context) error {
	network, bits, device := m.Network(), m.Network().Link().Bits(), m.Network().Device(m.Number)
	host := []string{"ip", "address", "add", fmt.Sprintf("%s/%d", network.Host(), bits), "dev", device}
	if m.Number > 1 { // the whole range is behind the first machine's device, but for the other machines
		host = []string{"ip", "address", "add", network.Host().String(), "peer", m.Address().String(), "dev", device}
	}
	commands := [][]string{
		{"ip", "link", "set", device, "alias", m.alias},
		host,
		{"ip", "link", "set", device, "up"},
		m.ip("link", "set", "lo", "up"),
		m.ip("address", "add", fmt.Sprintf("%s/%d", m.Address(), bits), "dev", uplink),
		m.ip("link", "set", uplink, "up"),
		// So that tests and the API server reach pods and services as the nodes do.
		{"ip", "route", "add", network.PodsOf(m.Number).String(), "via", m.Address().String(), "dev", device},
	}
	if m.Number == 1 {
		commands = append(commands, []string{"ip", "route", "add", network.Services().String(), "via", m.Address().String(), "dev", device})
	}
	return m.runAll(ctx, commands)
}

// Link joins two machines of a cluster by a veth pair of their own, so that the host need not forward anything. Each end is
// called as the machine that it leads to.
func (m *Machine) Link(ctx context.Context, other *Machine) error {
	err := m.runAll(ctx, [][]string{
		m.ip("link", "add", other.Name, "type", "veth", "peer", "name", m.Name, "netns", fmt.Sprint(other.PID)),
		m.ip("address", "add", m.Address().String(), "peer", other.Address().String(), "dev", other.Name),
		other.ip("address", "add", other.Address().String(), "peer", m.Address().String(), "dev", m.Name),
	})
	if err != nil {
		return err
	}
	if err := m.linkUp(ctx, other); err != nil {
		return err
	}
	return other.linkUp(ctx, m)
}

// linkUp makes a link usable from this machine's side.
func (m *Machine) linkUp(ctx context.Context, other *Machine) error {
	return m.runAll(ctx, [][]string{
		m.ip("link", "set", other.Name, "up"),
		m.ip("route", "replace", m.Network().PodsOf(other.Number).String(), "via", other.Address().String(), "dev", other.Name),
	})
}

// Cut takes the machine off the network: off the host, and with it the API server, and off the other machines of its
// cluster. Everything in it goes on running, and pods in it still reach each other.
func (m *Machine) Cut(ctx context.Context, others []*Machine) error {
	commands := [][]string{m.ip("link", "set", uplink, "down")}
	for _, other := range others {
		commands = append(commands, m.ip("link", "set", other.Name, "down"))
	}
	return m.runAll(ctx, commands)
}

// Rejoin undoes Cut. It may be called where nothing was cut.
func (m *Machine) Rejoin(ctx context.Context, others []*Machine) error {
	if err := m.runAll(ctx, [][]string{m.ip("link", "set", uplink, "up")}); err != nil {
		return err
	}
	for _, other := range others {
		if err := m.linkUp(ctx, other); err != nil { // the kernel forgets a device's routes when it is set down
			return err
		}
	}
	return nil
}

// ip is the command of that name, in the machine's network.
func (m *Machine) ip(arguments ...string) []string {
	return append(append(m.Enter("net"), "ip"), arguments...)
}

func (m *Machine) runAll(ctx context.Context, commands [][]string) error {
	for _, command := range commands {
		if err := run(ctx, command[0], command[1:]...); err != nil {
			return fmt.Errorf("connect %s: %w", m.Name, err)
		}
	}
	return nil
}

// removeDevices removes the host's ends of a cluster's veth pairs. They go with their machines' networks, but a network stays
// while it has connections that can't be closed properly, as those of a machine that was cut off, for minutes.
func removeDevices(alias string) error {
	files, err := filepath.Glob("/sys/class/net/dbnode*/ifalias")
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(content)) != alias {
			continue // it has just gone, or is another cluster's
		}
		if err := run(context.Background(), "ip", "link", "delete", filepath.Base(filepath.Dir(file))); err != nil {
			if _, gone := os.Stat(file); gone == nil {
				return err
			}
		}
	}
	return nil
}

// usedRanges returns the ranges that the host has addresses in or routes to, but for the default route.
func usedRanges() ([]netip.Prefix, error) {
	var used []netip.Prefix
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			used = append(used, prefix.Masked())
		}
	}
	table, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil, err
	}
	return append(used, parseRoutes(string(table))...), nil
}

func overlaps(used []netip.Prefix, wanted netip.Prefix) bool {
	for _, prefix := range used {
		if prefix.Overlaps(wanted) {
			return true
		}
	}
	return false
}
