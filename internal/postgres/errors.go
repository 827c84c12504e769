package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Kind says what a caller can do about an Error.
type Kind string

// The kinds of errors. KindUnavailable and KindFailed go away by themselves or by mending the server; the others
// need what their message says.
const (
	// KindUnavailable: the server can't be reached, or lets nobody in; the server's breaker is open.
	KindUnavailable Kind = "Unavailable"
	// KindFailed: the server refused a statement for a reason without a kind of its own.
	KindFailed Kind = "Failed"
	// KindNameReserved: the name is the admin's, or a privileged role's.
	KindNameReserved Kind = "NameReserved"
	// KindAlreadyExists: a role or database of that name exists and is nobody's.
	KindAlreadyExists Kind = "AlreadyExists"
	// KindNameConflict: the role carries another resource's claim, Error.Claim.
	KindNameConflict Kind = "NameConflict"
	// KindInsufficientPrivilege: the admin lacks a privilege; the message has the statement to run.
	KindInsufficientPrivilege Kind = "InsufficientPrivilege"
	// KindPasswordRejected: the server, or CheckLogin's rules, refused the password.
	KindPasswordRejected Kind = "PasswordRejected"
	// KindPasswordNeeded: a change needs the password and the wish has none.
	KindPasswordNeeded Kind = "PasswordNeeded"
	// KindDropBlocked: sessions, prepared transactions or replication slots keep the database.
	KindDropBlocked Kind = "DropBlocked"
	// KindRoleHasDependents: other databases hold objects or privileges of the role.
	KindRoleHasDependents Kind = "RoleHasDependents"
)

// Error is what every call of this package returns.
type Error struct {
	Kind Kind
	// Message is one line for the resource's owner: the same from one failure to the next, free of secrets, with
	// what to do where something can be done.
	Message string
	// Claim is the other resource's claim, with KindNameConflict where it could be read.
	Claim *Claim
	// Err is the cause, for logs; nil where there is none.
	Err error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + oneLine(e.Err.Error())
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of an error of this package, and KindFailed for every other.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindFailed
}

func errorf(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Err: cause}
}

// The SQLSTATEs that this package tells apart; PostgreSQL's documentation, appendix A.
const (
	codeInvalidParameter      = "22023"
	codeUniqueViolation       = "23505"
	codeInvalidPassword       = "28P01"
	codeDependentObjects      = "2BP01"
	codeUndefinedObject       = "42704"
	codeDuplicateObject       = "42710"
	codeDuplicateDatabase     = "42P04"
	codeInsufficientPrivilege = "42501"
	codeUndefinedDatabase     = "3D000"
	codePrerequisiteState     = "55000"
	codeObjectInUse           = "55006"
	codeInternal              = "XX000"
	codeTooManyConnections    = "53300"
	codeLockNotAvailable      = "55P03"
	codeDeadlock              = "40P01"
)

// sqlState is the SQLSTATE of a server's answer, empty where the server gave none.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// errRace is our own finding that somebody else was faster.
var errRace = errors.New("the catalog changed meanwhile")

// isRace reports an answer that only says that somebody else was changing the same catalog row: look again and go on.
func isRace(err error) bool {
	if errors.Is(err, errRace) {
		return true
	}
	switch sqlState(err) {
	case codeDuplicateObject, codeDuplicateDatabase, codeUniqueViolation, codeDeadlock, codeUndefinedObject, codeUndefinedDatabase:
		return true
	case codeInternal: // such messages are never translated
		return strings.Contains(err.Error(), "tuple concurrently") || strings.Contains(err.Error(), "could not find tuple")
	case codePrerequisiteState:
		return true // a database that somebody else is dropping
	}
	return false
}

// isUnavailable reports that the server can't be reached, lets the admin not in, or is going down.
func isUnavailable(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	switch code := sqlState(err); {
	case errors.Is(err, errSilent):
		return true
	case code == "57P01", code == "57P02", code == "57P03", strings.HasPrefix(code, "08"):
		return true
	case code != "":
		return false
	}
	return isBroken(err)
}

// errSilent: the server took a statement that it answers in no time, and didn't answer.
var errSilent = errors.New("the server doesn't answer")

// isBroken reports a connection that ended without an answer of the server.
func isBroken(err error) bool {
	var network net.Error
	return errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "conn closed") // pgconn's own error for it isn't exported
}

// connectMessage is the stable part of why the admin can't connect, without the DSN's words.
func connectMessage(err error) string {
	switch code := sqlState(err); {
	case code == codeInvalidPassword || code == "28000":
		return "The PostgreSQL server refuses the admin's login: check the file that POSTGRES_ADMIN_DSN_FILE names."
	case code == codeTooManyConnections:
		return "The PostgreSQL server has no connection left for the admin."
	case code == "57P03":
		return "The PostgreSQL server is starting up or shutting down."
	case code == codeUndefinedDatabase:
		return "The database of the admin's DSN doesn't exist."
	}
	return "The PostgreSQL server can't be reached."
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
