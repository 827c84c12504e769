package postgres

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	defaultConnectTimeout = 5 * time.Second
	maxDSNBytes           = 64 << 10
	// fileCheckInterval is how often at most the DSN file is looked at while the server is used.
	fileCheckInterval = time.Second
)

// DSN is the admin connection, parsed.
type DSN struct {
	config *pgx.ConnConfig
	sum    [sha256.Size]byte
}

// ReadDSN reads and parses the file that holds the admin connection's DSN, in one of libpq's two forms. The error
// names the file and never quotes what it holds.
func ReadDSN(file string) (DSN, error) {
	f, err := os.Stat(file)
	if err != nil {
		return DSN{}, err
	}
	if f.Size() > maxDSNBytes {
		return DSN{}, fmt.Errorf("%s has %d bytes, too many for a DSN", file, f.Size())
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return DSN{}, err
	}
	dsn, err := parseDSN(strings.TrimSpace(string(content)))
	if err != nil {
		return DSN{}, fmt.Errorf("%s: %w", file, err)
	}
	return dsn, nil
}

func parseDSN(s string) (DSN, error) {
	if s == "" {
		return DSN{}, errors.New("the file is empty")
	}
	config, err := pgx.ParseConfig(s)
	if err != nil {
		// The parser's own error quotes the DSN, so it isn't wrapped.
		return DSN{}, errors.New("not a PostgreSQL DSN such as postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full (special characters in the password must be percent-encoded)")
	}
	if config.User == "" || config.Host == "" {
		return DSN{}, errors.New("the DSN names no user or no host")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = defaultConnectTimeout
	}
	// Names are looked up in pg_catalog alone, whatever the admin's own settings are.
	config.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "databases-controller"
	}
	return DSN{config: config, sum: sha256.Sum256([]byte(s))}, nil
}

// SSLMode is the DSN's sslmode, from the TLS configuration that it led to, so that a mode from PGSSLMODE or a service
// file counts too.
func (d DSN) SSLMode() string {
	c := d.config.Config
	if strings.HasPrefix(c.Host, "/") {
		return "disable" // a Unix socket; its clients are on this machine
	}
	var fallback *pgconn.FallbackConfig
	for _, f := range c.Fallbacks {
		if f.Host == c.Host && f.Port == c.Port {
			fallback = f
			break
		}
	}
	switch tls := c.TLSConfig; {
	case tls == nil && fallback == nil:
		return "disable"
	case tls == nil:
		return "allow"
	case fallback != nil:
		return "prefer"
	case !tls.InsecureSkipVerify:
		return "verify-full"
	case tls.VerifyPeerCertificate != nil || tls.VerifyConnection != nil:
		return "verify-ca"
	}
	return "require"
}

// source is the DSN file, read again when it changes.
type source struct {
	file string

	mu      sync.Mutex
	dsn     DSN
	checked time.Time
	stat    os.FileInfo
	err     error
}

// current is the DSN to use now. A file that can't be read or parsed leaves the last good DSN in use; its error is
// given by lastError.
func (s *source) current() DSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checked) < fileCheckInterval {
		return s.dsn
	}
	s.checked = time.Now()
	stat, err := os.Stat(s.file)
	if err == nil && s.err == nil && s.stat != nil && os.SameFile(stat, s.stat) &&
		stat.ModTime().Equal(s.stat.ModTime()) && stat.Size() == s.stat.Size() {
		return s.dsn
	}
	var dsn DSN
	if err == nil {
		dsn, err = ReadDSN(s.file)
	}
	s.err = err
	if err == nil {
		s.dsn, s.stat = dsn, stat
	}
	return s.dsn
}

func (s *source) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
