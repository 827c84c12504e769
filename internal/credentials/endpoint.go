package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Endpoint is what a Secret tells its client about the server.
type Endpoint struct {
	Host    string
	Port    int
	SSLMode string
	// CA is the PEM of the server's CA; none where the client has it already.
	CA []byte
}

// Login is what a client logs in with.
type Login struct{ Username, Password, Database string }

// dataVersion changes when the form of the Secrets' data does, so that all are applied again.
const dataVersion = "1"

// hash identifies the endpoint and the form of the data. It holds nothing secret.
func (e Endpoint) hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s\n%s", dataVersion, e.Host, e.Port, e.SSLMode, e.CA))
	return hex.EncodeToString(sum[:8])
}

// data is the Secret's data.
func (e Endpoint) data(l Login) map[string][]byte {
	data := map[string][]byte{
		"type":     []byte("postgresql"),
		"provider": []byte("databases"),
		"host":     []byte(e.Host),
		"port":     []byte(strconv.Itoa(e.Port)),
		"database": []byte(l.Database),
		"username": []byte(l.Username),
		"password": []byte(l.Password),
		"sslmode":  []byte(e.SSLMode),
		"uri":      []byte(e.uri(l)),
		"jdbc-url": []byte(e.jdbcURL(l)),
	}
	if len(e.CA) > 0 {
		data["ca.crt"] = e.CA
	}
	return data
}

// uri is libpq's form of the connection.
func (e Endpoint) uri(l Login) string {
	return fmt.Sprintf("postgresql://%s:%s@%s/%s?sslmode=%s",
		escape(l.Username), escape(l.Password), e.hostPort(), escape(l.Database), escape(e.SSLMode))
}

// jdbcURL is pgjdbc's, which has no user part.
func (e Endpoint) jdbcURL(l Login) string {
	return fmt.Sprintf("jdbc:postgresql://%s/%s?user=%s&password=%s&sslmode=%s",
		e.hostPort(), escape(l.Database), escape(l.Username), escape(l.Password), escape(e.SSLMode))
}

func (e Endpoint) hostPort() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// escape percent-encodes everything but letters, digits, '-', '_', '.' and '~': net/url, libpq and pgjdbc agree on
// how to read that, in every part of a URL, and on nothing less ("+" is a space to some of them).
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
