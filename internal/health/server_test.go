package health_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/example/databases/internal/health"
	"github.com/example/databases/internal/testenv"
)

type probes struct {
	t      *testing.T
	file   string
	addr   string
	log    *testenv.Buffer
	synced atomic.Bool
}

func start(t *testing.T) *probes {
	t.Helper()
	p := &probes{t: t, file: filepath.Join(t.TempDir(), "tls.pem"), log: &testenv.Buffer{}}
	p.write(testenv.SelfSigned(t, 1))
	server, err := health.NewServer(health.Options{
		Addr: "127.0.0.1:0", PEMFile: p.file, Log: slog.New(slog.NewJSONHandler(p.log, nil)),
		Synced: func() error {
			if !p.synced.Load() {
				return errors.New("the caches haven't synced yet")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.addr = server.Listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

// write replaces the file as a whole.
func (p *probes) write(content string) {
	p.t.Helper()
	if err := os.WriteFile(p.file+".new", []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.file+".new", p.file); err != nil {
		p.t.Fatal(err)
	}
}

// get asks on a connection of its own, as the kubelet does, and gives the serial number of the certificate too.
func (p *probes) get(path string) (status int, body string, serial int64) {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "https://"+p.addr+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(content), answer.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func TestReadyOnceSynced(t *testing.T) {
	p := start(t)
	want := func(path string, status int, body string) {
		t.Helper()
		if gotStatus, gotBody, _ := p.get(path); gotStatus != status || gotBody != body {
			t.Errorf("%s: %d %q, want %d %q", path, gotStatus, gotBody, status, body)
		}
	}
	want("/healthz", 200, "ok")
	want("/readyz", 500, "[-]Synced failed: reason withheld\nhealthz check failed\n")
	want("/readyz/Synced", 500, "internal server error: the caches haven't synced yet\n")
	p.synced.Store(true)
	want("/readyz", 200, "ok")
	want("/readyz/Synced", 200, "ok")
	want("/readyz?verbose", 200, "[+]Synced ok\nhealthz check passed\n")
	if status, _, _ := p.get("/metrics"); status != 404 {
		t.Errorf("/metrics: %d", status)
	}
}

// TestCertificateReplaced replaces the file while the server serves: by a good pair, by one that can't be used, by none.
func TestCertificateReplaced(t *testing.T) {
	p := start(t)
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within 20 s; log:\n%s", what, p.log)
			}
		}
	}
	serves := func(serial int64) func() bool {
		return func() bool { _, _, got := p.get("/healthz"); return got == serial }
	}
	until("the first", serves(1))
	p.write(testenv.SelfSigned(t, 2))
	until("the second", serves(2))
	broken := testenv.SelfSigned(t, 3)
	p.write(broken[:len(broken)/2])
	until("a complaint", func() bool { return serves(2)() && strings.Contains(p.log.String(), "can't be used") })
	for range 5 {
		p.get("/healthz")
	}
	if n := strings.Count(p.log.String(), "can't be used"); n != 1 || strings.Contains(p.log.String(), broken[len(broken)/2-16:len(broken)/2]) {
		t.Errorf("%d complaints, want one without the content:\n%s", n, p.log)
	}
	if err := os.Remove(p.file); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // longer than the file isn't looked at
	if !serves(2)() {
		t.Error("without a file the last good certificate isn't served")
	}
	p.write(testenv.SelfSigned(t, 4))
	until("the fourth", serves(4))
}

func TestRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tls.pem")
	if err := os.WriteFile(file, []byte(testenv.SelfSigned(t, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it doesn't wait
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ addr, file, want string }{
		{"127.0.0.1:0", file + ".not", "the probes' certificate: "},
		{taken.Addr().String(), file, "taking the probes' address: listen tcp " + taken.Addr().String() + ": bind: address already in use"},
	} {
		_, err := health.NewServer(health.Options{Addr: c.addr, PEMFile: c.file, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %s", c.addr, c.file, err, c.want)
		}
	}
}
