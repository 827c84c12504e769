package postgres

import (
	"fmt"
	"strings"
)

// checkPassword refuses what no client could send.
func checkPassword(password string) error {
	switch {
	case strings.ContainsRune(password, 0):
		return fmt.Errorf("the password has a NUL byte")
	case len(password) > 1000: // libpq and PostgreSQL's own prompts end near there
		return fmt.Errorf("the password has more than 1000 bytes")
	}
	return nil
}
