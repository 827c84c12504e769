package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// maxNamed is how many sessions or databases a message names.
const maxNamed = 5

// Drop implements Admin.
func (s *Server) Drop(ctx context.Context, name string, claim Claim) error {
	if CheckName(name) != nil {
		return nil // such a name was never made
	}
	ended, lacking := false, false
	for races := 0; ; races++ {
		err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error { return s.drop(ctx, conn, name, claim) })
		switch {
		case sqlState(err) == codeLockNotAvailable && !ended:
			// FORCE ends no session whose transaction holds a lock that the DROP itself waits for.
			ended = true
			if err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error { return s.endSessions(ctx, conn, name, claim) }); err != nil {
				return err
			}
		case KindOf(err) == KindInsufficientPrivilege && !lacking:
			lacking = true // or somebody else has dropped the role, and the admin's membership with it: look again
		case err == nil || !isRace(err) || races == maxRaces || pause(ctx) != nil:
			return err
		}
	}
}

// endSessions ends the sessions of a claimed role, whatever database they are in.
func (s *Server) endSessions(ctx context.Context, conn *pgx.Conn, name string, claim Claim) error {
	have, err := s.observe(ctx, conn, name, name)
	if err != nil || !have.claimedBy(claim) {
		return err
	}
	at := failure{name: name, admin: have.Admin}
	end := Statement{"SELECT pg_terminate_backend", "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = " + literal(name)}
	if have.Admin.Superuser {
		return s.send(ctx, conn, at, end)
	}
	statements := []Statement{{"SET ROLE", "SET ROLE " + identifier(name)}, end, {"RESET ROLE", "RESET ROLE"}}
	if !have.Role.Settable {
		statements = append([]Statement{grant(name, have.Admin).statement()}, statements...)
	}
	if err := s.send(ctx, conn, at, statements...); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // it may still be the role
		return err
	}
	return nil
}

// claimedBy reports whether the role is there and carries the claim.
func (s State) claimedBy(claim Claim) bool {
	if s.Role == nil {
		return false
	}
	owner, err := ParseClaim(s.Role.Comment)
	return err == nil && owner == claim
}

func (s *Server) drop(ctx context.Context, conn *pgx.Conn, name string, claim Claim) error {
	have, err := s.observe(ctx, conn, name, name)
	if err != nil {
		return err
	}
	if !have.claimedBy(claim) {
		return nil
	}
	d := drop{name: name, admin: have.Admin}
	if have.Database == nil || have.Database.Owner != name {
		return s.dropRole(ctx, conn, d)
	}
	d.andRole = true
	d.disconnect = !have.Database.Invalid
	d.logout = have.Role.Login
	if !have.Role.Settable {
		d.grant = grant(name, have.Admin)
	}
	return s.dropDatabase(ctx, conn, d)
}

// drop is what dropDatabase does beside dropping the database.
type drop struct {
	name  string
	admin AdminState
	// grant is the membership that the admin lacks; nil where it has it.
	grant *GrantRole
	// logout takes LOGIN from the role first, disconnect closes the database to new connections.
	logout, disconnect bool
	// andRole drops the role too.
	andRole bool
}

// dropDatabase drops a database, as its owner where the admin is no superuser: from PostgreSQL 16 a weak admin doesn't
// inherit the owner's rights. SET ROLE and DROP DATABASE can't be in one transaction, so they are separate on a
// connection that is closed if any of them fails.
func (s *Server) dropDatabase(ctx context.Context, conn *pgx.Conn, d drop) error {
	at := failure{name: d.name, admin: d.admin}
	name := identifier(d.name)
	var before, after []Statement
	if d.grant != nil {
		before = append(before, d.grant.statement())
	}
	if d.logout {
		before = append(before, Statement{"ALTER ROLE", "ALTER ROLE " + name + " NOLOGIN"})
	}
	if !d.admin.Superuser {
		before = append(before, Statement{"SET ROLE", "SET ROLE " + name})
		after = append(after, Statement{"RESET ROLE", "RESET ROLE"})
	}
	if d.disconnect {
		before = append(before, Statement{"ALTER DATABASE", "ALTER DATABASE " + name + " ALLOW_CONNECTIONS false IS_TEMPLATE false"})
	}
	if d.andRole {
		after = append(after, dropRoleStatement(d.name))
	}
	err := s.sendAny(ctx, conn, at, before)
	if err == nil {
		statements, _ := DropDatabase{Name: d.name}.statements()
		err = s.send(ctx, conn, at, statements...)
		err = s.blocked(ctx, conn, d.name, err, codeObjectInUse, codeInsufficientPrivilege, codeLockNotAvailable)
	} else {
		err = s.blocked(ctx, conn, d.name, err, codeLockNotAvailable)
	}
	if err == nil {
		err = s.sendAny(ctx, conn, at, after)
		if sqlState(err) == codeDependentObjects {
			err = s.dependents(ctx, conn, d.name, err)
		}
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // it may still be the role
	}
	return err
}

func (s *Server) dropRole(ctx context.Context, conn *pgx.Conn, d drop) error {
	err := s.send(ctx, conn, failure{name: d.name, admin: d.admin}, dropRoleStatement(d.name))
	if sqlState(err) == codeDependentObjects {
		return s.dependents(ctx, conn, d.name, err)
	}
	return err
}

func dropRoleStatement(name string) Statement {
	return Statement{"DROP ROLE", "DROP ROLE IF EXISTS " + identifier(name)}
}

func (s *Server) sendAny(ctx context.Context, conn *pgx.Conn, at failure, statements []Statement) error {
	if len(statements) == 0 {
		return nil
	}
	return s.send(ctx, conn, at, statements...)
}

// The role's own sessions come last: the admin may end those, so that they aren't what blocks.
const blockersSQL = `
SELECT what FROM (
    SELECT 1 AS class, 'session ' || pid || ' (user ' || coalesce(quote_ident(usename), backend_type, '?')
           || ', application ' || quote_literal(coalesce(application_name, '')) || ')' AS what
    FROM pg_stat_activity WHERE datname = $1 AND usename IS DISTINCT FROM $1
    UNION ALL
    SELECT 1, 'prepared transaction ' || quote_literal(gid) || ' (user ' || quote_ident(owner) || ')'
    FROM pg_prepared_xacts WHERE database = $1
    UNION ALL
    SELECT 1, 'subscription ' || quote_literal(subname) FROM pg_subscription
    WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = $1)
    UNION ALL
    SELECT 1, 'replication slot ' || quote_literal(slot_name) FROM pg_replication_slots WHERE database = $1
    UNION ALL
    SELECT 2, 'session ' || pid || ' (user ' || quote_ident(usename) || ', application '
           || quote_literal(coalesce(application_name, '')) || ')'
    FROM pg_stat_activity WHERE usename = $1 AND pid <> pg_backend_pid()
) b ORDER BY class, what LIMIT 6`

// blocked turns a refusal with one of the codes into the list of what holds the database, or into a race where nothing
// does any more; every other cause it gives back.
func (s *Server) blocked(ctx context.Context, conn *pgx.Conn, name string, cause error, codes ...string) error {
	if !slices.Contains(codes, sqlState(cause)) {
		return cause
	}
	holders, err := s.names(ctx, conn, "SELECT pg_stat_activity", blockersSQL, name)
	switch {
	case err != nil:
		return cause
	case len(holders) == 0: // it ended a moment ago
		return errorf(KindFailed, errors.Join(errRace, cause), "PostgreSQL refused DROP DATABASE (SQLSTATE %s).", sqlState(cause))
	}
	return errorf(KindDropBlocked, cause, "The database %q is held by what the admin role can't end: %s. End it, or set spec.deletionPolicy to Retain.",
		name, list(holders))
}

// 1260 is the oid of the catalog of roles.
const dependentsSQL = `
SELECT DISTINCT coalesce(quote_ident(d.datname), 'objects of the whole server')
FROM pg_shdepend s
LEFT JOIN pg_database d ON d.oid = CASE WHEN s.dbid <> 0 THEN s.dbid WHEN s.classid = 'pg_database'::regclass THEN s.objid END
WHERE s.refclassid = 1260 AND s.refobjid = (SELECT oid FROM pg_roles WHERE rolname = $1)
ORDER BY 1 LIMIT 6`

func (s *Server) dependents(ctx context.Context, conn *pgx.Conn, name string, cause error) error {
	databases, err := s.names(ctx, conn, "SELECT pg_shdepend", dependentsSQL, name)
	if err != nil || len(databases) == 0 {
		databases = []string{"another database"}
	}
	return errorf(KindRoleHasDependents, cause,
		"The role %q still has privileges or objects in: %s. There, run: REASSIGN OWNED BY %s TO CURRENT_USER; DROP OWNED BY %s. Or set spec.deletionPolicy to Retain.",
		name, list(databases), identifier(name), identifier(name))
}

func (s *Server) names(ctx context.Context, conn *pgx.Conn, summary, sql, name string) ([]string, error) {
	var found []string
	err := s.intercept(ctx, summary, func(ctx context.Context) error {
		// A fresh name each time would prepare it for nothing: this runs on a connection that is closed afterwards.
		rows, err := conn.Query(ctx, sql, pgx.QueryExecModeExec, name)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return found, err
}

// list names the first few and says that there are more.
func list(names []string) string {
	if len(names) > maxNamed {
		names = append(names[:maxNamed:maxNamed], "and more")
	}
	return strings.Join(names, ", ")
}
