package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// failure is what an error's message needs to know of the statement that failed.
type failure struct {
	statement Statement
	name      string
	admin     AdminState
}

// send runs the statements in one round trip. A failed transaction is rolled back. It uses pgconn, because pgx's own
// batches prepare each statement first, which is a round trip more.
func (s *Server) send(ctx context.Context, conn *pgx.Conn, at failure, statements ...Statement) error {
	var failed int
	err := s.intercept(ctx, summaries(statements), func(ctx context.Context) error {
		var err error
		failed, err = execute(ctx, conn.PgConn(), statements)
		return err
	})
	if err == nil {
		return nil
	}
	if conn.PgConn().TxStatus() != 'I' && !conn.IsClosed() {
		rollback(ctx, conn)
	}
	at.statement = statements[min(failed, len(statements)-1)]
	return s.explain(err, at)
}

// execute returns the index of the statement that failed with its error.
func execute(ctx context.Context, conn *pgconn.PgConn, statements []Statement) (int, error) {
	if len(statements) == 1 { // CREATE and DROP DATABASE can't be in a pipeline's implicit transaction
		_, err := conn.Exec(ctx, statements[0].SQL).ReadAll()
		return 0, err
	}
	batch := &pgconn.Batch{}
	for _, statement := range statements {
		batch.ExecParams(statement.SQL, nil, nil, nil, nil)
	}
	results := conn.ExecBatch(ctx, batch)
	var done int
	for results.NextResult() {
		if _, err := results.ResultReader().Close(); err != nil {
			break
		}
		done++
	}
	return done, results.Close()
}

func summaries(statements []Statement) string {
	var names []string
	for _, statement := range statements {
		names = append(names, statement.Summary)
	}
	return strings.Join(names, "; ")
}

// explain turns a driver's error into an *Error with a message for the resource's owner. An error that only says
// that the server is gone is left as it is: run decides what that means.
func (s *Server) explain(err error, at failure) error {
	summary := at.statement.Summary
	hasPassword := strings.Contains(at.statement.SQL, " PASSWORD ")
	switch code := sqlState(err); {
	case isUnavailable(err):
		return err
	case code == codeInsufficientPrivilege:
		return insufficient(err, at)
	case code == codeInvalidParameter && summary == "SET ROLE": // the role went a moment ago
		return errorf(KindFailed, errors.Join(errRace, err), "PostgreSQL refused %s (SQLSTATE %s).", summary, code)
	case code == codeLockNotAvailable && strings.HasPrefix(summary, "CREATE "): // somebody else is making the same
		return errorf(KindFailed, errors.Join(errRace, err), "PostgreSQL refused %s (SQLSTATE %s).", summary, code)
	case code == codeLockNotAvailable:
		return errorf(KindFailed, err, "A session holds a lock on the role or the database %q: PostgreSQL refused %s. End that session, or wait for it.", at.name, summary)
	case hasPassword && (code == codeInvalidParameter || code == codeInvalidPassword || code == "28000" || code == "P0001"):
		return errorf(KindPasswordRejected, err, "The server's password rules refuse the password in the Secret. Put another one there, or delete the Secret to get a new random one.")
	case code != "":
		return errorf(KindFailed, err, "PostgreSQL refused %s (SQLSTATE %s).", summary, code)
	}
	return errorf(KindFailed, err, "PostgreSQL did not complete %s.", summary)
}

// insufficient says which statement gives the admin what it lacks.
func insufficient(err error, at failure) *Error {
	admin := identifier(at.admin.Name)
	var statement string
	switch summary := at.statement.Summary; {
	case summary == "CREATE ROLE" && !at.admin.CreateRole:
		statement = "ALTER ROLE " + admin + " CREATEROLE"
	case summary == "CREATE DATABASE" && !at.admin.CreateDB:
		statement = "ALTER ROLE " + admin + " CREATEDB"
	case at.admin.splitMembership():
		statement = "GRANT " + identifier(at.name) + " TO " + admin + " WITH ADMIN TRUE, INHERIT FALSE, SET TRUE"
	default:
		statement = "GRANT " + identifier(at.name) + " TO " + admin + " WITH ADMIN OPTION"
	}
	return errorf(KindInsufficientPrivilege, err, "The admin role %q may not run %s. As a superuser, run: %s",
		at.admin.Name, at.statement.Summary, statement)
}

// noEffect is the error for a change that the server took without an error and that isn't there: PostgreSQL answers
// a GRANT or REVOKE that it doesn't carry out with a warning.
func noEffect(change Change, name string, admin AdminState) *Error {
	if _, ok := change.(OpenDatabase); ok {
		return errorf(KindInsufficientPrivilege, nil,
			"PUBLIC keeps privileges on the database %q that a role other than its owner granted. As a superuser, take that role's GRANT OPTION away with CASCADE; \\l in psql names it.", name)
	}
	e := insufficient(nil, failure{statement: Statement{Summary: "GRANT ROLE"}, name: name, admin: admin})
	e.Message = strings.Replace(e.Message, "may not run GRANT ROLE", "still lacks what it needs after "+change.String(), 1)
	return e
}
