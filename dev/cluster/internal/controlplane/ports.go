package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from below those that systems give to outgoing connections, so that no connection can take one
// between its being found free and its component's listening on it.
const firstPort, lastPort = 20000, 32000

// choosePorts finds free ports for the components. The API server's may be given; 0 means any. It is looked for at the
// address where that listens, all others at the loopback address.
func choosePorts(chosen []component, given int, address string) (map[string][]int, error) {
	ports := map[string][]int{}
	var held []net.Listener // until all are found, so that none is found twice
	defer func() {
		for _, listener := range held {
			listener.Close()
		}
	}()
	for _, c := range chosen {
		if c.onNode() {
			ports[c.name] = []int{c.fixed}
		}
		for range c.ports {
			want, at := 0, loopback
			if c.name == apiServer {
				want, at = given, address
			}
			port, listener, err := choosePort(want, at)
			if err != nil {
				return nil, err
			}
			held = append(held, listener)
			ports[c.name] = append(ports[c.name], port)
		}
	}
	return ports, nil
}

func choosePort(given int, address string) (int, net.Listener, error) {
	if given != 0 {
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, given))
		if err != nil {
			return 0, nil, fmt.Errorf("port %d cannot be used (%w): choose another with --port, or 0 for any", given, err)
		}
		return given, listener, nil
	}
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("%s:%d", address, port)); err == nil {
			return port, listener, nil
		}
	}
	return 0, nil, fmt.Errorf("no free port found between %d and %d: %w", firstPort, lastPort, err)
}
