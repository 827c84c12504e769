package telemetry_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/example/databases/internal/settings"
)

// TestOutages: a collector that doesn't do its part costs nothing but telemetry, by either protocol.
func TestOutages(t *testing.T) {
	for _, protocol := range []string{settings.ProtocolGRPC, settings.ProtocolHTTP} {
		for what, start := range map[string]func(t *testing.T, protocol string) (address string, leave func()){
			"accepts and never answers": silent, "refuses": refusing, "goes away": leaving,
		} {
			t.Run(protocol+" "+what, func(t *testing.T) {
				address, leave := start(t, protocol)
				w := newWorld(t, sharedServer, sharedDSN, map[string]string{
					"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + address, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_TIMEOUT": "20000", "OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BSP_EXPORT_TIMEOUT": "1000"})
				w.start()
				// One export that is waited for takes as long as a Database is waited for here, and a reconcile has a dozen spans.
				w.create("before")
				w.ready("before")
				leave()
				w.create("orders")
				w.ready("orders")
				time.Sleep(2 * time.Second) // so that exports fail
				// Package telemetry's own test has the exact limit of 3 s; here it must not be the exporters' own.
				if took := w.stop(); took > 10*time.Second {
					t.Errorf("the telemetry's end took %s, want 3 s, and not the exporters' 20 s", took)
				}
				if n := strings.Count(w.stderr.String(), "telemetry is incomplete"); n != 1 {
					t.Errorf("%d records of telemetry's errors, want one a minute:\n%s", n, w.stderr)
				}
			})
		}
	}
}

func silent(t *testing.T, _ string) (string, func()) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	return listener.Addr().String(), func() {}
}

func refusing(t *testing.T, _ string) (string, func()) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String(), func() {}
}

func leaving(t *testing.T, protocol string) (string, func()) {
	if protocol == settings.ProtocolGRPC {
		r := newReceiver(t)
		return r.address, r.server.Stop
	}
	var posts atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { posts.Add(1) }))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), func() {
		for deadline := time.Now().Add(patience); posts.Load() < 3; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nothing came while the collector was there")
			}
		}
		server.CloseClientConnections()
		server.Close()
	}
}
