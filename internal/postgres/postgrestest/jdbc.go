package postgrestest

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// jdbcDriver is where Debian's package libpostgresql-jdbc-java puts pgjdbc.
const jdbcDriver = "/usr/share/java/postgresql.jar"

//go:embed jdbc/ReadURL.java
var readURL []byte

// JDBCLogin is what came of a login with a JDBC URL.
type JDBCLogin struct {
	// User and Database are those of the session.
	User, Database string
	// Refused is the driver's message when there was no session, else empty.
	Refused string
}

// JDBCConnect logs in with each jdbc:postgresql: URL through the real JDBC
// driver, all in one Java machine, whose start takes a second. A missing JDK or
// driver fails the test.
func JDBCConnect(t testing.TB, urls ...string) []JDBCLogin {
	t.Helper()
	if _, err := os.Stat(jdbcDriver); err != nil {
		t.Fatalf("the JDBC driver is missing: run dev/setup test: %v", err)
	}
	if _, err := exec.LookPath("javac"); err != nil { // java alone doesn't run source files
		t.Fatalf("the JDK is missing: run dev/setup test: %v", err)
	}
	for i, u := range urls {
		if strings.ContainsAny(u, "\r\n") {
			t.Fatalf("JDBC URL %d holds a line end", i)
		}
	}
	if len(urls) == 0 {
		return nil
	}
	source := filepath.Join(t.TempDir(), "ReadURL.java")
	if err := os.WriteFile(source, readURL, 0o600); err != nil {
		t.Fatal(err)
	}
	java := exec.CommandContext(t.Context(), "java", "-XX:TieredStopAtLevel=1", "-cp", jdbcDriver, source)
	java.Stdin = strings.NewReader(strings.Join(urls, "\n") + "\n")
	var printed bytes.Buffer
	java.Stderr = &printed
	out, err := java.Output()
	if err != nil {
		t.Fatalf("java: %v: %s", err, printed.Bytes())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(urls) {
		t.Fatalf("java answered %d of %d URLs: %s", len(lines), len(urls), out)
	}
	logins := make([]JDBCLogin, len(urls))
	for i, line := range lines {
		logins[i] = parseLogin(t, line)
	}
	return logins
}

// parseLogin reads a line of ReadURL.java.
func parseLogin(t testing.TB, line string) JDBCLogin {
	t.Helper()
	fields := strings.Split(line, " ")
	for i, field := range fields[1:] {
		value, err := base64.StdEncoding.DecodeString(field)
		if err != nil {
			t.Fatalf("java printed %q: %v", line, err)
		}
		fields[i+1] = string(value)
	}
	switch {
	case fields[0] == "in" && len(fields) == 3:
		return JDBCLogin{User: fields[1], Database: fields[2]}
	case fields[0] == "out" && len(fields) == 2:
		return JDBCLogin{Refused: fields[1]}
	}
	t.Fatalf("java printed %q", line)
	return JDBCLogin{}
}
