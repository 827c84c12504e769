package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// PasswordHBA is the line for SetHBA that lets everybody in with a password,
// as a new server does.
const PasswordHBA = "host all all all scram-sha-256"

// superuserHBA keeps the superuser's way in open, whatever a test sets.
const superuserHBA = "host all postgres all scram-sha-256"

// Exec runs statements as superuser in the database postgres, each in a
// transaction of its own, and stops at the first that fails.
func (s *Server) Exec(ctx context.Context, statements ...string) error {
	return s.withSuperuser(ctx, func(conn *pgx.Conn) error {
		for _, sql := range statements {
			if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Query runs one statement as superuser in the database postgres and returns
// its rows as PostgreSQL prints them; a null is an empty string.
func (s *Server) Query(ctx context.Context, sql string) ([][]string, error) {
	var rows [][]string
	err := s.withSuperuser(ctx, func(conn *pgx.Conn) error {
		results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil {
			return err
		}
		for _, result := range results {
			for _, row := range result.Rows {
				var texts []string
				for _, value := range row {
					texts = append(texts, string(value))
				}
				rows = append(rows, texts)
			}
		}
		return nil
	})
	return rows, err
}

// WeakAdmin makes a role that may log in, create databases and create roles,
// and nothing more, like the administrator of a managed server. It returns the
// role's URL in the database postgres; the password is random.
func (s *Server) WeakAdmin(ctx context.Context, name string) (dsn string, err error) {
	password := rand.Text()
	err = s.Exec(ctx,
		"SET log_statement = none", // the next statement holds the password
		"SET log_min_duration_statement = -1",
		"SET log_min_error_statement = panic",
		"CREATE ROLE "+pgx.Identifier{name}.Sanitize()+" LOGIN CREATEDB CREATEROLE PASSWORD '"+password+"'",
	)
	if err != nil {
		return "", fmt.Errorf("creating the administrator %q: %w", name, err)
	}
	return s.DSN(name, password, "postgres"), nil
}

// SetHBA replaces pg_hba.conf by the given lines, after one that always lets
// the superuser in, and returns when they hold for new connections. Without
// lines only the superuser gets in.
func (s *Server) SetHBA(ctx context.Context, lines ...string) error {
	lines = append([]string{superuserHBA}, lines...)
	if err := s.folder.write(dataDir+"/pg_hba.conf", []byte(strings.Join(lines, "\n")+"\n")); err != nil {
		return err
	}
	// The server keeps the old rules when it can't read the new ones.
	faults, err := s.Query(ctx, "SELECT line_number, error FROM pg_hba_file_rules WHERE error IS NOT NULL")
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return fmt.Errorf("pg_hba.conf: line and fault %q", faults)
	}
	return s.Reload(ctx)
}

// Reload makes the server read its configuration files again, and returns when
// they hold for new connections.
func (s *Server) Reload(ctx context.Context) error {
	// A new session inherits the time of the last reload from the postmaster,
	// which sets it before it takes another connection.
	const loaded = "SELECT pg_conf_load_time()"
	before, err := s.Query(ctx, loaded)
	if err != nil {
		return err
	}
	if err := s.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		now, err := s.Query(ctx, loaded)
		if err != nil {
			return fmt.Errorf("waiting for the reload: %w", err)
		}
		if now[0][0] != before[0][0] {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// withSuperuser calls do with a connection of its own.
func (s *Server) withSuperuser(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.SuperuserDSN())
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(ctx))
}
