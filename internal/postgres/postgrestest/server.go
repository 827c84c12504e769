package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Versions are the major versions of PostgreSQL the project supports.
var Versions = []int{14, 15, 16, 17, 18}

// loopback is the only address a server listens on.
const loopback = "127.0.0.1"

const (
	// stopWithin bounds each step of stopping a server.
	stopWithin = 30 * time.Second
	// readyWithin bounds a start, recovery after Kill included.
	readyWithin = time.Minute
)

// Options say which server Launch starts. The zero value is not enough: give
// Major, Installed or both.
type Options struct {
	// Major is the major version, one of Versions. With Installed it may be 0,
	// which takes the newest installed one.
	Major int
	// Installed takes a PostgreSQL installed on this machine and not the
	// fetched one, which has no contrib modules.
	Installed bool
	// Settings are server settings by name. They win over this package's own,
	// which trade safety at a power cut for speed (fsync=off and the like).
	Settings map[string]string
	// TLS makes the server offer TLS, and DSN ask for it with
	// sslmode=verify-full. Connections without TLS are still served.
	TLS bool
	// Dir is where the server's temporary folder is made, for a benchmark that
	// cares for the disk; empty means os.TempDir.
	Dir string
}

// Server is one running or stopped PostgreSQL server and its data. Its methods
// may be called concurrently, but for Stop, Kill, Restart and Close.
type Server struct {
	binaries binaries
	folder   *folder
	settings map[string]string
	tls      bool
	port     int
	password string // the superuser's
	process  *process
}

// Launch makes a new, empty server, starts it, and returns when the superuser
// has logged in. ctx bounds the start only; the caller closes the server.
func Launch(ctx context.Context, o Options) (*Server, error) {
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	found, err := findBinaries(ctx, o, account)
	if err != nil {
		return nil, err
	}
	f, err := newFolder(o.Dir, account)
	if err != nil {
		return nil, err
	}
	s := &Server{
		binaries: found,
		folder:   f,
		settings: o.Settings,
		tls:      o.TLS,
		password: rand.Text(),
	}
	if err := s.create(ctx); err != nil {
		err = fmt.Errorf("starting PostgreSQL %d: %w", found.major, err)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start launches a server for a test and closes it when the test ends. A
// server that doesn't start fails the test at once.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Launch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Host returns the address the server listens on.
func (s *Server) Host() string { return loopback }

// Port returns the server's TCP port, the same for the server's whole life.
func (s *Server) Port() int { return s.port }

// Major returns the server's major version.
func (s *Server) Major() int { return s.binaries.major }

// DSN returns the postgres:// URL of a login at this server.
func (s *Server) DSN(user, password, database string) string {
	query := "sslmode=disable"
	if s.tls {
		query = "sslmode=verify-full&sslrootcert=" + url.PathEscape(s.folder.path(certificateFile))
	}
	dsn := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     net.JoinHostPort(loopback, strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawPath:  "/" + url.PathEscape(database), // a slash in the name is not a separator
		RawQuery: query,
	}
	return dsn.String()
}

// SuperuserDSN returns the URL of the superuser, postgres, in the database of
// that name. Its password is random.
func (s *Server) SuperuserDSN() string {
	return s.DSN("postgres", s.password, "postgres")
}

// Log returns what the server has logged so far, over all its starts.
func (s *Server) Log() (string, error) {
	text, err := os.ReadFile(s.folder.path(logFile))
	return string(text), err
}

// Stop shuts the server down in order, as systemctl stop does: open sessions
// end, all data is written out. The data stays for Restart. Stopping a stopped
// server does nothing.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server without writing anything out, like a crash: the next
// start goes through recovery. It returns when no process of the server is
// left.
func (s *Server) Kill() error { return s.end(syscall.SIGQUIT) }

// Restart starts the server again with the same port and data, and stops it
// first if it is running.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.run(ctx)
}

// Close ends the server and removes its data. It may be called twice.
func (s *Server) Close() error {
	// A shutdown in order would first write out data that goes away anyway.
	return errors.Join(s.Kill(), s.folder.remove())
}

// end signals the postmaster and waits until it is gone. SIGKILL is only for a
// hung one: it leaves shared memory behind.
func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	for _, sig := range []syscall.Signal{signal, syscall.SIGQUIT, syscall.SIGKILL} {
		s.process.signal(sig)
		select {
		case <-s.process.done:
			s.process = nil
			return nil
		case <-time.After(stopWithin):
		}
	}
	return fmt.Errorf("PostgreSQL in %s doesn't end, not even by SIGKILL", filepath.Dir(s.data()))
}

// data returns the server's data directory.
func (s *Server) data() string { return s.folder.path(dataDir) }
