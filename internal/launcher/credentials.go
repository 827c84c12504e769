package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// ReadCredentials reads the mounted Secret. A line's end after a password isn't part of it. Errors name the key and
// never the password.
func ReadCredentials(dir string) (Credentials, error) {
	var all Credentials
	err := errors.Join(
		readPassword(dir, KeySuperuser, &all.Superuser),
		readPassword(dir, KeyReplication, &all.Replication),
		readPassword(dir, KeyREST, &all.REST),
	)
	return all, err
}

func readPassword(dir, key string, into *string) error {
	content, err := os.ReadFile(filepath.Join(dir, key)) //nolint:gosec // named by the pod's own settings
	if err != nil {
		return fmt.Errorf("reading the Secret's key %s: %w", key, err)
	}
	password := strings.TrimRight(string(content), "\r\n")
	switch {
	case password == "":
		return fmt.Errorf("reading the Secret's key %s: it is empty", key)
	case !utf8.ValidString(password):
		return fmt.Errorf("reading the Secret's key %s: it is not UTF-8", key)
	case strings.ContainsAny(password, "\x00\r\n"):
		return fmt.Errorf("reading the Secret's key %s: it has a NUL byte or several lines", key)
	}
	*into = password
	return nil
}
