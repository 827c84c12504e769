package credentials

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzURLs: net/url reads back what was put in; psql and the JDBC driver are asked in TestURLs.
func FuzzURLs(f *testing.F) {
	f.Add("orders", "orders", "p@ss:w/o?r#d %41+&=", "db.example.com", "verify-full")
	f.Add("My-App", "its-data", "Пароль\x01\n", "::1", "disable")
	f.Fuzz(func(t *testing.T, name, database, password, host, mode string) {
		if strings.ContainsAny(host, "[]%/ \"<>\\^`{|}@?#\x7f") || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return // settings refuse such a host
		}
		e := Endpoint{Host: host, Port: 5432, SSLMode: mode}
		u, err := url.Parse(e.uri(Login{name, password, database}))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := u.User.Password(); got != password || u.User.Username() != name || u.Path != "/"+database ||
			u.Query().Get("sslmode") != mode || u.Hostname() != host {
			t.Errorf("uri %q reads back as user %q, password %q, path %q", u, u.User.Username(), got, u.Path)
		}
		j, err := url.Parse(strings.TrimPrefix(e.jdbcURL(Login{name, password, database}), "jdbc:"))
		if err != nil {
			t.Fatal(err)
		}
		if q := j.Query(); q.Get("user") != name || q.Get("password") != password || q.Get("sslmode") != mode || j.Path != "/"+database {
			t.Errorf("jdbc-url %q reads back as %v", j, q)
		}
	})
}
