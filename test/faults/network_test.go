//go:build linux

package faults

import (
	"context"
	"net"
	"os/exec"
	"slices"
	"testing"
)

// TestAnswering: a port where somebody listens is told from one where nobody does.
func TestAnswering(t *testing.T) {
	var peers []peer
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		peers = append(peers, peer{"127.0.0.1", int32(listener.Addr().(*net.TCPAddr).Port)})
		if len(peers) == 2 {
			_ = listener.Close()
		}
	}
	run := func(ctx context.Context, argv ...string) (string, error) {
		output, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		return string(output), err
	}
	if open := answering(t.Context(), run, "5", peers); !slices.Equal(open, peers[:1]) {
		t.Errorf("of %v answer %v, want the first", peers, open)
	}
}
