package postgres

import (
	"errors"
	"fmt"
	"strings"
)

// maxNameBytes is NAMEDATALEN - 1. The server cuts longer names with a NOTICE only, so that a statement with a long
// name may hit the object of another name.
const maxNameBytes = 63

// CheckName reports why s can't be the name of a role and a database. It is the admission rule of spec.name once
// more, because a stored object may be older than the rule.
func CheckName(s string) error {
	switch {
	case s == "":
		return errors.New("the name is empty")
	case len(s) > maxNameBytes:
		return fmt.Errorf("the name has %d bytes; PostgreSQL keeps %d", len(s), maxNameBytes)
	case strings.HasPrefix(s, "pg_"):
		return fmt.Errorf("the name %q begins with pg_, which PostgreSQL reserves", s)
	case reservedNames[s]:
		return fmt.Errorf("the name %q is reserved by PostgreSQL or by a cloud provider", s)
	}
	for i, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '_':
		case i > 0 && ('0' <= r && r <= '9' || r == '-'):
		default:
			return fmt.Errorf("the name %q must begin with a letter or '_' and go on with letters, digits, '_' and '-'", s)
		}
	}
	return nil
}

var reservedNames = map[string]bool{
	"postgres": true, "template0": true, "template1": true, "public": true, "none": true,
	"rdsadmin": true, "cloudsqladmin": true, "azure_maintenance": true, "azure_sys": true,
}

// identifier quotes s as an SQL identifier. pgx's Identifier.Sanitize drops NUL bytes, which would change the name;
// a name with one never passes CheckName.
func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// literal quotes s as an SQL string. Only claims and verifiers are quoted, which have no backslash, so that
// standard_conforming_strings doesn't matter.
func literal(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }
