package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxNamed is how many sessions or databases a message names.
const maxNamed = 5

// Drop implements Admin.
func (s *Server) Drop(ctx context.Context, name string, claim Claim) error {
	if CheckName(name) != nil {
		return nil // such a name was never made
	}
	for races := 0; ; races++ {
		err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error { return s.drop(ctx, conn, name, claim) })
		if err == nil || !isRace(err) || races == maxRaces {
			return err
		}
		time.Sleep(raceDelay)
	}
}

func (s *Server) drop(ctx context.Context, conn *pgx.Conn, name string, claim Claim) error {
	have, err := s.observe(ctx, conn, name)
	if err != nil {
		return err
	}
	if have.Role == nil {
		return nil
	}
	if owner, err := ParseClaim(have.Role.Comment); err != nil || owner != claim {
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
		before = append(before, Statement{"ALTER DATABASE", "ALTER DATABASE " + name + " ALLOW_CONNECTIONS false"})
	}
	if d.andRole {
		after = append(after, dropRoleStatement(d.name))
	}
	err := s.sendAny(ctx, conn, at, before)
	if err == nil {
		statements, _ := DropDatabase{Name: d.name}.statements()
		err = s.send(ctx, conn, at, statements...)
		if blocked := s.blocked(ctx, conn, d.name, err); blocked != nil {
			err = blocked
		}
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
    SELECT 1, 'replication slot ' || quote_literal(slot_name) FROM pg_replication_slots WHERE database = $1
    UNION ALL
    SELECT 2, 'session ' || pid || ' (user ' || quote_ident(usename) || ', application '
           || quote_literal(coalesce(application_name, '')) || ')'
    FROM pg_stat_activity WHERE datname = $1 AND usename = $1
) b ORDER BY class, what LIMIT 6`

// blocked turns the refusal of a DROP DATABASE into the list of what holds the database; nil where nothing does, or
// the DROP failed for another reason.
func (s *Server) blocked(ctx context.Context, conn *pgx.Conn, name string, cause error) error {
	if code := sqlState(cause); code != codeObjectInUse && code != codeInsufficientPrivilege {
		return nil
	}
	holders, err := s.names(ctx, conn, "SELECT pg_stat_activity", blockersSQL, name)
	if err != nil || len(holders) == 0 {
		return nil
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
		"The database is dropped, but the role %q still has privileges or objects in: %s. There, run: REASSIGN OWNED BY %s TO CURRENT_USER; DROP OWNED BY %s. Or set spec.deletionPolicy to Retain.",
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
