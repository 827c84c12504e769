package controlplane

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/example/databases/dev/cluster/internal/process"
)

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		sentence string
		names    []string
		want     string
		complain string
	}{
		{"the default is everything", Default, "etcd kube-apiserver kube-controller-manager kube-scheduler", ""},
		{"the order is that of starting", []string{apiServer, etcd}, "etcd kube-apiserver", ""},
		{"what is needed must be there", []string{etcd, scheduler}, "", "component kube-scheduler needs kube-apiserver"},
		{"etcd alone is no cluster", []string{etcd}, "", "a cluster needs kube-apiserver"},
		{"a node adds its own", slices.Concat(OfNode, Default),
			"etcd containerd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy coredns volumes", ""},
		{"a node needs a whole control plane", append([]string{etcd, apiServer}, OfNode...), "", "a node needs kube-controller-manager"},
		{"a part of a node is none", append([]string{kubelet}, Default...), "", `there is no component "kubelet"`},
		{"an unknown name is refused", []string{etcd, apiServer, "docker"}, "", `there is no component "docker"`},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			chosen, err := choose(test.names)
			var names []string
			for _, c := range chosen {
				names = append(names, c.name)
			}
			if got := strings.Join(names, " "); err == nil && got != test.want {
				t.Errorf("chosen %q, want %q", got, test.want)
			}
			if (err == nil) != (test.complain == "") || err != nil && !strings.Contains(err.Error(), test.complain) {
				t.Errorf("error %v, want %q", err, test.complain)
			}
		})
	}
}

func TestChoosePorts(t *testing.T) {
	ports, err := choosePorts(components, 0, loopback)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, c := range components {
		if len(ports[c.name]) != max(1, c.ports) {
			t.Errorf("%s has %d ports, want %d", c.name, len(ports[c.name]), max(1, c.ports))
		}
		for _, port := range ports[c.name] {
			if seen[port] {
				t.Errorf("port %d is given twice", port)
			}
			seen[port] = true
		}
	}
}

func TestGivenPort(t *testing.T) {
	port, listener, err := choosePort(0, loopback)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := choosePorts(components, port, loopback); err == nil || !strings.Contains(err.Error(), "--port") {
		t.Errorf("a port in use gives %v, want an error that names the flag", err)
	}
	listener.Close()
	ports, err := choosePorts(components, port, loopback)
	if err != nil || ports[apiServer][0] != port {
		t.Errorf("port %d was asked for: %v, %v", port, ports, err)
	}
}

func newTestSite(t *testing.T, config Config) *site {
	t.Helper()
	config.Folder, config.Name = t.TempDir(), "dev"
	chosen, err := choose(config.Components)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := choosePorts(chosen, 0, loopback)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSite(config, chosen, ports, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEverythingListensOnLoopback(t *testing.T) {
	s := newTestSite(t, Config{Components: Default})
	for _, c := range s.components {
		arguments := c.arguments(s)
		for _, argument := range arguments {
			if flag, value, _ := strings.Cut(argument, "="); strings.HasPrefix(flag, "--listen") || flag == "--bind-address" {
				host := strings.TrimPrefix(value, "https://")
				if name, _, err := net.SplitHostPort(host); err == nil {
					host = name
				}
				if host != loopback {
					t.Errorf("%s has %s", c.name, argument)
				}
			}
		}
		if c.name != etcd && !slices.Contains(arguments, "--bind-address="+loopback) {
			t.Errorf("%s may listen anywhere: %q", c.name, arguments)
		}
	}
}

func TestAPIServerArguments(t *testing.T) {
	const noAccounts, audit = "--disable-admission-plugins=ServiceAccount", "--audit-log-path=/audit.log"
	for _, test := range []struct {
		sentence   string
		config     Config
		with, sans string
	}{
		{"service accounts are required if something makes them", Config{Components: Default}, "", noAccounts},
		{"and not if nothing does", Config{Components: []string{etcd, apiServer}}, noAccounts, ""},
		{"requests are logged if that is asked for", Config{Components: Default, AuditLog: "/audit.log"}, audit, ""},
		{"and not otherwise", Config{Components: Default}, "", audit},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			arguments := apiServerArguments(newTestSite(t, test.config))
			if test.with != "" && !slices.Contains(arguments, test.with) {
				t.Errorf("lacks %s: %q", test.with, arguments)
			}
			if test.sans != "" && slices.Contains(arguments, test.sans) {
				t.Errorf("has %s", test.sans)
			}
		})
	}
}

func TestPortTaken(t *testing.T) {
	taken := &process.EndedError{Name: etcd, Log: []string{"listen tcp 127.0.0.1:1: bind: address already in use"}}
	for _, test := range []struct {
		sentence string
		err      error
		want     bool
	}{
		{"no error is none", nil, false},
		{"a component that found its port taken", fmt.Errorf("start: %w", taken), true},
		{"a component that ended otherwise", &process.EndedError{Name: etcd, Log: []string{"panic"}}, false},
		{"another error", errors.New("address already in use"), false},
	} {
		if got := portTaken(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", test.sentence, got, test.want)
		}
	}
}
