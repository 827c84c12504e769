package health

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// Synced is the name of the readiness check: the caches have seen everything that was there when the program started.
	Synced = "Synced"

	// requestTimeout is more than the kubelet waits for an answer.
	requestTimeout = 10 * time.Second
	// shutdownTimeout is for a request that came just before the end.
	shutdownTimeout = time.Second
)

// Options say what is served and where.
type Options struct {
	// Addr is the address, as :8443.
	Addr string
	// PEMFile holds the certificate, what it is signed by, and its key.
	PEMFile string
	// Synced says why the caches haven't synced yet; nil where they have.
	Synced func() error
	Log    *slog.Logger
}

// NewServer makes the server and takes the address, so that an address in use is an error at once. It serves when the manager
// starts, before its caches have synced and whether it leads or not.
func NewServer(o Options) (*manager.Server, error) {
	pair, err := newKeyPair(o.PEMFile, o.Log)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", o.Addr) //nolint:noctx // it doesn't wait
	if err != nil {
		return nil, fmt.Errorf("taking the probes' address: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	timeout := shutdownTimeout
	return &manager.Server{
		Name: "probes",
		Server: &http.Server{
			Handler:           handler(o.Synced),
			ReadTimeout:       requestTimeout,
			ReadHeaderTimeout: requestTimeout,
			WriteTimeout:      requestTimeout,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    8 << 10,
			// What a stranger sends to the port is no event of ours.
			ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		},
		Listener:        tls.NewListener(listener, config),
		ShutdownTimeout: &timeout,
	}, nil
}

// handler answers /healthz, /readyz and below them each check by its name.
func handler(synced func() error) http.Handler {
	ready := &healthz.Handler{Checks: map[string]healthz.Checker{Synced: func(*http.Request) error { return synced() }}}
	live := &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}}
	mux := http.NewServeMux()
	mux.Handle("/readyz", http.StripPrefix("/readyz", ready))
	mux.Handle("/readyz/", http.StripPrefix("/readyz", ready))
	mux.Handle("/healthz", http.StripPrefix("/healthz", live))
	mux.Handle("/healthz/", http.StripPrefix("/healthz", live))
	return mux
}
