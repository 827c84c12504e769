package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/example/databases/internal/reload"
	"github.com/example/databases/internal/scram"
)

const (
	defaultConnectTimeout = 5 * time.Second
	lockTimeout           = "3s"
)

// DSN is the admin connection, parsed.
type DSN struct {
	config *pgx.ConnConfig
	sum    [sha256.Size]byte
}

// ReadDSN reads and parses the file that holds the admin connection's DSN, in one of libpq's two forms. The error
// names the file and never quotes what it holds.
func ReadDSN(file string) (DSN, error) {
	content, err := reload.NewFile(file).Content()
	if err != nil {
		return DSN{}, err
	}
	dsn, err := parseDSN(content)
	if err != nil {
		return DSN{}, fmt.Errorf("%s: %w", file, err)
	}
	return dsn, nil
}

func parseDSN(content []byte) (DSN, error) {
	s := strings.TrimSpace(string(content))
	if s == "" {
		return DSN{}, errors.New("the file is empty")
	}
	config, err := pgx.ParseConfig(s)
	if err != nil {
		// The parser's own error quotes the DSN, so it isn't wrapped.
		return DSN{}, errors.New("not a PostgreSQL DSN such as postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full (special characters in the password must be percent-encoded)")
	}
	if !namesUserAndHost(s) {
		return DSN{}, errors.New("the DSN names no user or no host")
	}
	return newDSN(config, content), nil
}

// newDSN sets what every admin connection needs. content identifies the DSN.
func newDSN(config *pgx.ConnConfig, content []byte) DSN {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = defaultConnectTimeout
	}
	// Names are looked up in pg_catalog alone, whatever the admin's own settings are, and no tenant's open transaction
	// holds a connection for long.
	config.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	config.RuntimeParams["lock_timeout"] = lockTimeout
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "databases-controller"
	}
	return DSN{config: config, sum: sha256.Sum256(content)}
}

// namesUserAndHost keeps the driver from filling them in from this process's own user and environment: half a file
// would lead to another server.
func namesUserAndHost(s string) bool {
	if u, err := url.Parse(s); err == nil && u.Scheme != "" {
		query := u.Query()
		return (u.User.Username() != "" || query.Has("user")) && (u.Host != "" || query.Has("host"))
	}
	return keyword("service").MatchString(s) || keyword("user").MatchString(s) && keyword("host(addr)?").MatchString(s)
}

func keyword(name string) *regexp.Regexp { return regexp.MustCompile(`(^|\s)` + name + `\s*=\s*\S`) }

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

// Connection is an admin connection to a server whose address and password are known.
type Connection struct {
	// Address is the server's, as HOST:PORT.
	Address string
	// User, Password and Database are the admin's.
	User, Password, Database string
	// Dial opens the connection; nil for the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (c Connection) dsn() (DSN, error) {
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return DSN{}, errorf(KindFailed, err, "The server's address can't be used.")
	}
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%s sslmode=disable", host, port))
	if err != nil {
		return DSN{}, errorf(KindFailed, nil, "The server's address can't be used.")
	}
	config.User, config.Password, config.Database = c.User, scram.Prepare(c.Password), c.Database
	if c.Dial != nil {
		config.DialFunc = c.Dial
		config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	return newDSN(config, []byte(c.Address+"\n"+c.User+"\n"+c.Password+"\n"+c.Database)), nil
}

// dsnSource is where a server's DSN comes from.
type dsnSource interface {
	// current is the DSN to use now, and why a newer one can't be used.
	current() (DSN, error)
}

// fixed is a DSN that never changes.
type fixed DSN

func (f fixed) current() (DSN, error) { return DSN(f), nil }

// source is the DSN file, read again when it changes.
type source struct {
	file *reload.File

	mu    sync.Mutex
	dsn   DSN
	tried [sha256.Size]byte // the content that was parsed last, good or bad
	err   error
}

func newSource(file string) (*source, error) {
	dsn, err := ReadDSN(file)
	return &source{file: reload.NewFile(file), dsn: dsn, tried: dsn.sum}, err
}

// current is the DSN to use now. A file that can't be read or parsed leaves the last good DSN in use, and gives its
// error too.
func (s *source) current() (DSN, error) {
	content, err := s.file.Content()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return s.dsn, err
	}
	if sum := sha256.Sum256(content); sum != s.tried {
		s.tried = sum
		var dsn DSN
		if dsn, s.err = parseDSN(content); s.err == nil {
			s.dsn = dsn
		}
	}
	return s.dsn, s.err
}
