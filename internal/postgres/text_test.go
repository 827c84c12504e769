package postgres

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaim(t *testing.T) {
	full := "databases/v1 cluster=c group=postgres.example.com namespace=ns name=orders uid=u"
	if got := testClaim.String(); got != full {
		t.Errorf("String() = %q, want %q", got, full)
	}
	if got, err := ParseClaim(full); err != nil || got != testClaim {
		t.Errorf("ParseClaim = %+v, %v", got, err)
	}
	for comment, noClaim := range map[string]bool{
		"": true, "the billing team's": true, " " + full: true,
		"databases/v2 x": false, "databases/v1": false, full + " more=x": false, full + "\n": false,
		strings.Replace(full, "cluster=c ", "", 1): false, strings.Replace(full, "cluster=c", "cluster=", 1): false,
		strings.Replace(full, "name=orders", "name=o'rders", 1): false, strings.Replace(full, " group", "  group", 1): false,
	} {
		claim, err := ParseClaim(comment)
		if err == nil {
			t.Errorf("ParseClaim(%q) = %+v, want an error", comment, claim)
		}
		if errors.Is(err, errNoClaim) != noClaim {
			t.Errorf("ParseClaim(%q): %v; no claim at all: want %v", comment, err, noClaim)
		}
	}
}

func FuzzClaim(f *testing.F) {
	f.Add(testClaim.String())
	f.Add(handOver(testClaim))
	f.Add("databases/v1 cluster= group= namespace= name=")
	f.Fuzz(func(t *testing.T, comment string) {
		claim, err := ParseClaim(comment)
		if err != nil {
			return
		}
		if claim.String() != comment {
			t.Errorf("ParseClaim(%q).String() = %q", comment, claim)
		}
		if err := claim.Validate(); err != nil {
			t.Errorf("a parsed claim isn't valid: %v", err)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, name := range []string{"orders", `a"b`, "a'b", "a\x00b", strings.Repeat("x", 64), "pg_x", "É"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) != nil {
			return
		}
		if len(name) > 63 || strings.ContainsAny(name, "\"'\\;\x00 \n") {
			t.Errorf("CheckName passed %q", name)
		}
		if got := identifier(name); got != `"`+name+`"` {
			t.Errorf("identifier(%q) = %s", name, got)
		}
	})
}

func FuzzPassword(f *testing.F) {
	for _, password := range []string{"", "p", "Ⅸ", "a\u00a0b", "\xff\xfe", "nul\x00", strings.Repeat("x", 1001)} {
		f.Add(password)
	}
	f.Fuzz(func(t *testing.T, password string) {
		clause, err := passwordClause(password)
		if err != nil {
			if len(password) > 4 && strings.Contains(err.Error(), password) {
				t.Errorf("the error shows the password")
			}
			return
		}
		if !strings.HasPrefix(clause, " PASSWORD 'SCRAM-SHA-256$4096:") || strings.Count(clause, "'") != 2 {
			t.Errorf("clause %q", clause)
		}
	})
}

func FuzzDSN(f *testing.F) {
	f.Add("postgres://u:hunter2hunter2@h:5432/d?sslmode=require")
	f.Add("host=h user=u password=hunter2hunter2 port=zzz")
	f.Add("postgres://u:hunter2hunter2@h:zzz/d")
	f.Fuzz(func(t *testing.T, dsn string) {
		_, err := parseDSN([]byte(dsn))
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	})
}

func TestDSN(t *testing.T) {
	for dsn, mode := range map[string]string{
		"postgres://u:p@h/d":                             "prefer",
		"postgres://u:p@h/d?sslmode=disable":             "disable",
		"postgres://u:p@h/d?sslmode=allow":               "allow",
		"host=h user=u password=p sslmode=require":       "require",
		"postgres://u:p@h/d?sslmode=verify-ca":           "verify-ca",
		"postgres://u:p@h/d?sslmode=verify-full":         "verify-full",
		"postgres://u:p@h1,h2:5433/d?sslmode=prefer":     "prefer",
		"host=/var/run/postgresql user=u sslmode=prefer": "disable",
		"host=h user=u sslmode=disable search_path=evil": "disable",
	} {
		parsed, err := parseDSN([]byte(dsn))
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if got := parsed.SSLMode(); got != mode {
			t.Errorf("%s: sslmode %q, want %q", dsn, got, mode)
		}
		if got := parsed.config.RuntimeParams["search_path"]; got != "pg_catalog, pg_temp" {
			t.Errorf("%s: search_path %q", dsn, got)
		}
	}
	file := filepath.Join(t.TempDir(), "dsn")
	for content, want := range map[string]string{
		"":                              "the file is empty",
		"postgres://u:hunter2@h:port/d": "not a PostgreSQL DSN such as postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full (special characters in the password must be percent-encoded)",
		"password=hunter2":              "the DSN names no user or no host",
		"postgres://:hunter2@/d":        "the DSN names no user or no host",
		"host=h password=hunter2":       "the DSN names no user or no host",
		"&x=1":                          "the DSN names no user or no host",
		"nonsense hunter2":              "not a PostgreSQL DSN such as postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full (special characters in the password must be percent-encoded)",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDSN(file); err == nil || err.Error() != file+": "+want {
			t.Errorf("%q: error %v, want %q", content, err, want)
		}
	}
}
