package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// State is what the server says of a role, a database and the admin, read in one round trip.
type State struct {
	Admin AdminState
	// Role and Database are nil where there is none of these names.
	Role     *RoleState
	Database *DatabaseState
}

// AdminState is the admin's own role.
type AdminState struct {
	Name, Database                  string
	Superuser, CreateRole, CreateDB bool
	// Version is server_version_num, as 160004 for 16.4.
	Version int
}

// splitMembership reports whether a membership has options of its own (PostgreSQL 16 and later).
func (a AdminState) splitMembership() bool { return a.Version >= 160000 }

// RoleState is a role's.
type RoleState struct {
	Superuser, CreateRole, Replication, BypassRLS bool
	Login                                         bool
	ConnectionLimit                               int
	// Comment is the role's comment, where a claim stands.
	Comment string
	// Settable says that the admin may SET ROLE to it.
	Settable bool
}

// DatabaseState is a database's.
type DatabaseState struct {
	Owner            string
	AllowConnections bool
	// Invalid says that an interrupted DROP left it behind (datconnlimit = -2).
	Invalid bool
	// Public has what everybody may do in it, of CONNECT and TEMPORARY.
	Public []string
}

// observeSummary is the statement's name in spans, metrics and tests.
const observeSummary = "SELECT pg_roles pg_database"

// observeName is the name under which each connection prepares the statement.
const observeName = "observe"

// 1260 is the oid of the catalog of roles, the same in every version: a weak admin may not read that catalog itself.
// pg_has_role's privilege SET is unknown before version 16; CASE keeps it from being evaluated there because its
// argument isn't a constant.
const observeSQL = `
SELECT current_user::text, current_database()::text, a.rolsuper, a.rolcreaterole, a.rolcreatedb,
       current_setting('server_version_num')::int,
       r.oid IS NOT NULL, coalesce(r.rolsuper, false), coalesce(r.rolcreaterole, false),
       coalesce(r.rolreplication, false), coalesce(r.rolbypassrls, false), coalesce(r.rolcanlogin, false),
       coalesce(r.rolconnlimit, -1), coalesce((SELECT c.description FROM pg_shdescription c WHERE c.objoid = r.oid AND c.classoid = 1260), ''),
       coalesce(CASE WHEN current_setting('server_version_num')::int >= 160000
                     THEN pg_has_role(r.oid, 'SET') ELSE pg_has_role(r.oid, 'MEMBER') END, false),
       d.oid IS NOT NULL, coalesce(pg_get_userbyid(d.datdba)::text, ''), coalesce(d.datallowconn, false),
       coalesce(d.datconnlimit = -2, false),
       ARRAY(SELECT DISTINCT e.privilege_type::text FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) e
             WHERE e.grantee = 0 AND e.privilege_type IN ('CONNECT', 'TEMPORARY') ORDER BY 1)
FROM pg_roles a
LEFT JOIN pg_roles r ON r.rolname = $1
LEFT JOIN pg_database d ON d.datname = $2
WHERE a.rolname = current_user`

func observe(ctx context.Context, conn *pgx.Conn, role, database string) (State, error) {
	var s State
	var r RoleState
	var d DatabaseState
	var hasRole, hasDatabase bool
	err := conn.QueryRow(ctx, observeName, role, database).Scan(
		&s.Admin.Name, &s.Admin.Database, &s.Admin.Superuser, &s.Admin.CreateRole, &s.Admin.CreateDB, &s.Admin.Version,
		&hasRole, &r.Superuser, &r.CreateRole, &r.Replication, &r.BypassRLS, &r.Login,
		&r.ConnectionLimit, &r.Comment, &r.Settable,
		&hasDatabase, &d.Owner, &d.AllowConnections, &d.Invalid, &d.Public)
	if err != nil {
		return State{}, err
	}
	if hasRole {
		s.Role = &r
	}
	if hasDatabase {
		s.Database = &d
	}
	return s, nil
}
