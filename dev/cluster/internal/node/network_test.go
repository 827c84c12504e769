package node

import (
	"net/netip"
	"testing"
)

func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		sentence  string
		got, want string
	}{
		{"the first cluster begins at the beginning", Network{}.Prefix().String(), "198.18.0.0/19"},
		{"the last one ends at the end", Network{slot: slots - 1}.Prefix().String(), "198.19.224.0/19"},
		{"the host is the first on the link", Network{}.Host().String(), "198.18.0.1"},
		{"nodes have numbers", Network{}.Node(2).String(), "198.18.0.12"},
		{"and pods of their own", Network{}.PodsOf(2).String(), "198.18.17.0/24"},
		{"the API server's service is the first", Network{slot: 1}.API().String(), "198.18.36.1"},
		{"the DNS service is the tenth", Network{slot: 1}.DNS().String(), "198.18.36.10"},
		{"the device tells cluster and node", Network{slot: 3}.Device(1), "dbnode3-1"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", test.sentence, test.got, test.want)
		}
	}
}

func TestRangesDoNotOverlap(t *testing.T) {
	var all []netip.Prefix
	for slot := range slots {
		n := Network{slot: slot}
		for _, part := range []netip.Prefix{n.Link(), n.Services(), n.Pods()} {
			if part != part.Masked() || !n.Prefix().Contains(part.Addr()) || part.Bits() < n.Prefix().Bits() {
				t.Errorf("%s is not a part of %s", part, n.Prefix())
			}
			for _, other := range all {
				if part.Overlaps(other) {
					t.Errorf("%s overlaps %s", part, other)
				}
			}
			all = append(all, part)
		}
		if !n.Link().Contains(n.Host()) || !n.Link().Contains(n.Node(1)) || !n.Services().Contains(n.DNS()) || !n.Pods().Overlaps(n.PodsOf(1)) {
			t.Errorf("an address of cluster %d is not in its range", slot)
		}
	}
}

func TestParseRoutes(t *testing.T) {
	const table = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
dbnode0-1	000412C6	0B0012C6	0003	0	0	0	00FCFFFF	0	0	0
broken
`
	got := parseRoutes(table)
	want := []string{"192.0.2.0/24", "198.18.4.0/22"}
	if len(got) != len(want) {
		t.Fatalf("routes to %v, want %v: the default route is no range in use", got, want)
	}
	for i := range want {
		if got[i].String() != want[i] {
			t.Errorf("a route to %s, want %s", got[i], want[i])
		}
	}
}

func TestVisible(t *testing.T) {
	for file, want := range map[string]bool{
		"/home/user/.cache/databases":  true,
		"/tmp/x":                       true,
		"/var/lib/jenkins/.cache":      false,
		"/var/library":                 true,
		"/run/user/0":                  false,
		"/var/lib":                     false,
		"/home/somebody/run/file.tar":  true,
		"/var/log/somewhere/image.tar": false,
	} {
		if got := Visible(file); got != want {
			t.Errorf("%s is visible: %t, want %t", file, got, want)
		}
	}
}
