package postgres

import (
	"fmt"
	"strings"

	"github.com/example/databases/internal/scram"
)

// Change is one step of a plan: it is sent in one round trip and takes effect whole or not at all.
type Change interface {
	// String names the change and its object, without secrets.
	String() string
	// statements are sent together; more than one run in a transaction.
	statements() ([]Statement, error)
}

// Statement is one SQL statement.
type Statement struct {
	// Summary is its name in spans, metrics and errors.
	Summary string
	// SQL may hold a verifier and is never shown.
	SQL string
}

// CreateRole makes the role with its claim and, for a weak admin, the membership it needs.
type CreateRole struct {
	Name            string
	Claim           Claim
	ConnectionLimit int
	Password        string
	Grant           *GrantRole
}

// WriteClaim replaces the role's comment From, provided that it still is the role's comment.
type WriteClaim struct {
	Name  string
	From  string
	Claim Claim
}

// GrantRole makes the admin a member of the role.
type GrantRole struct {
	Name string
	// SetOnly asks for SET without INHERIT (PostgreSQL 16 and later).
	SetOnly bool
}

// AlterRole sets what differs; the zero value of a field leaves it alone.
type AlterRole struct {
	Name            string
	Login           bool
	ConnectionLimit *int
	Password        string
}

// CreateDatabase makes the database, closed to everybody.
type CreateDatabase struct{ Name, Owner string }

// OpenDatabase takes CONNECT and TEMPORARY from PUBLIC, as the database's owner, and lets connections in.
type OpenDatabase struct{ Name, Owner string }

// DropDatabase drops what an interrupted DROP left.
type DropDatabase struct{ Name string }

func (c CreateRole) String() string     { return "CREATE ROLE " + c.Name }
func (c WriteClaim) String() string     { return "COMMENT ROLE " + c.Name }
func (c GrantRole) String() string      { return "GRANT ROLE " + c.Name }
func (c CreateDatabase) String() string { return "CREATE DATABASE " + c.Name }
func (c OpenDatabase) String() string   { return "ALTER DATABASE " + c.Name }
func (c DropDatabase) String() string   { return "DROP DATABASE " + c.Name }

func (c AlterRole) String() string {
	var what []string
	if c.Login {
		what = append(what, "LOGIN")
	}
	if c.ConnectionLimit != nil {
		what = append(what, fmt.Sprintf("CONNECTION LIMIT %d", *c.ConnectionLimit))
	}
	if c.Password != "" {
		what = append(what, "PASSWORD")
	}
	return fmt.Sprintf("ALTER ROLE %s (%s)", c.Name, strings.Join(what, ", "))
}

func (c CreateRole) statements() ([]Statement, error) {
	password, err := passwordClause(c.Password)
	if err != nil {
		return nil, err
	}
	statements := []Statement{
		{"CREATE ROLE", "CREATE ROLE " + identifier(c.Name) + " LOGIN CONNECTION LIMIT " + fmt.Sprint(c.ConnectionLimit) + password},
		commentRole(c.Name, c.Claim),
	}
	if c.Grant != nil {
		statements = append(statements, c.Grant.statement())
	}
	return transaction(statements...), nil
}

// statements of a WriteClaim only write: Server.writeClaim compares before it sends them.
func (c WriteClaim) statements() ([]Statement, error) {
	return []Statement{commentRole(c.Name, c.Claim)}, nil
}

func (c GrantRole) statements() ([]Statement, error) { return []Statement{c.statement()}, nil }

func (c GrantRole) statement() Statement {
	sql := "GRANT " + identifier(c.Name) + " TO CURRENT_USER"
	if c.SetOnly {
		sql += " WITH INHERIT FALSE, SET TRUE"
	}
	return Statement{"GRANT ROLE", sql}
}

func (c AlterRole) statements() ([]Statement, error) {
	sql := "ALTER ROLE " + identifier(c.Name)
	if c.Login {
		sql += " LOGIN"
	}
	if c.ConnectionLimit != nil {
		sql += fmt.Sprintf(" CONNECTION LIMIT %d", *c.ConnectionLimit)
	}
	if c.Password != "" {
		password, err := passwordClause(c.Password)
		if err != nil {
			return nil, err
		}
		sql += password
	}
	return []Statement{{"ALTER ROLE", sql}}, nil
}

func (c CreateDatabase) statements() ([]Statement, error) {
	return []Statement{{"CREATE DATABASE", "CREATE DATABASE " + identifier(c.Name) + " OWNER " + identifier(c.Owner) + " TEMPLATE template0 ALLOW_CONNECTIONS false"}}, nil
}

// statements of an OpenDatabase run as the role: from PostgreSQL 16 a weak admin's own REVOKE is a warning only.
func (c OpenDatabase) statements() ([]Statement, error) {
	name := identifier(c.Name)
	return transaction(
		Statement{"SET ROLE", "SET LOCAL ROLE " + identifier(c.Owner)},
		Statement{"REVOKE DATABASE", "REVOKE CONNECT, TEMPORARY ON DATABASE " + name + " FROM PUBLIC"},
		Statement{"ALTER DATABASE", "ALTER DATABASE " + name + " ALLOW_CONNECTIONS true"},
	), nil
}

func (c DropDatabase) statements() ([]Statement, error) {
	return []Statement{{"DROP DATABASE", "DROP DATABASE IF EXISTS " + identifier(c.Name) + " WITH (FORCE)"}}, nil
}

func commentRole(name string, claim Claim) Statement {
	return Statement{"COMMENT ROLE", "COMMENT ON ROLE " + identifier(name) + " IS " + literal(claim.String())}
}

func passwordClause(password string) (string, error) {
	if err := checkPassword(password); err != nil {
		return "", errorf(KindPasswordRejected, nil, "The Secret's password can't be used: %s. Delete the Secret to get a new one.", err)
	}
	v, err := scram.Verifier(password)
	if err != nil {
		return "", errorf(KindFailed, err, "The password's verifier could not be computed.")
	}
	return " PASSWORD " + literal(v), nil
}

func transaction(statements ...Statement) []Statement {
	all := append([]Statement{{"BEGIN", "BEGIN"}}, statements...)
	return append(all, Statement{"COMMIT", "COMMIT"})
}
