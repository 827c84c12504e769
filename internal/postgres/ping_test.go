package postgres_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestPing: a ping tells of a server that doesn't answer any more, though it takes connections, and of one that answers again.
func TestPing(t *testing.T) {
	t.Parallel()
	b := postgrestest.Start(t, postgrestest.Options{Major: 16})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var silent atomic.Bool
	go relay(listener, fmt.Sprintf("%s:%d", b.Host(), b.Port()), &silent)
	port := listener.Addr().(*net.TCPAddr).Port
	file := filepath.Join(t.TempDir(), "dsn")
	dsn := strings.Replace(b.SuperuserDSN(), fmt.Sprintf(":%d/", b.Port()), fmt.Sprintf(":%d/", port), 1)
	if err := os.WriteFile(file, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := postgres.NewServer(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var seen down
	server.Notify(seen.notify)
	if err := server.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	wantKind(t, server.Ping(t.Context()), postgres.KindUnavailable)
	if seen.opened.Load() != 1 {
		t.Error("nobody was told that the server doesn't answer")
	}
	silent.Store(false)
	for deadline := time.Now().Add(time.Minute); seen.closed.Load() == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody was told within a minute that the server answers again")
		}
	}
	if err := server.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// relay passes connections on to the server, whose answers go nowhere while it is silent.
func relay(listener net.Listener, server string, silent *atomic.Bool) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", server) //nolint:noctx // it ends with the listener's connections
		if err != nil {
			_ = in.Close()
			continue
		}
		go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
		go func() {
			defer in.Close()
			buffer := make([]byte, 32<<10)
			for {
				n, err := out.Read(buffer)
				if err != nil {
					return
				}
				if silent.Load() {
					continue
				}
				if _, err := in.Write(buffer[:n]); err != nil {
					return
				}
			}
		}()
	}
}
