// Package roles gives PostgreSQL's roles the passwords of the mounted Secret.
//
// Invariants:
//   - PostgreSQL never sees a password: only a SCRAM verifier, computed here.
//   - A role whose verifier fits the password is left alone.
//   - Nothing waits for a standby: a standby may be the one who can't log in yet.
package roles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/scram"
)

const (
	patience = 60 * time.Second // a promotion may take a while
	pause    = 500 * time.Millisecond
)

// Callback is what Patroni calls with an action and this member's role. It acts on a primary only.
func Callback(ctx context.Context, _, role string, getenv func(string) string) error {
	if role != "primary" && role != "master" {
		return nil
	}
	runDir, secretDir := getenv(launcher.EnvRunDir), getenv(launcher.EnvCredentialsDir)
	if runDir == "" {
		runDir = launcher.DefaultRunDir
	}
	if secretDir == "" {
		secretDir = launcher.DefaultCredentialsDir
	}
	credentials, err := launcher.ReadCredentials(secretDir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err = ensure(ctx, runDir, credentials)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

var errInRecovery = errors.New("giving the roles their passwords: the server is still in recovery")

// ensure connects through the socket, where the pod's user is let in as superuser without a password.
func ensure(ctx context.Context, socketDir string, credentials launcher.Credentials) error {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return fmt.Errorf("connecting through the socket: %w", err)
	}
	config.Host, config.Port = socketDir, launcher.PortPostgres
	config.User, config.Database, config.Password = launcher.RoleSuperuser, "postgres", ""
	config.TLSConfig, config.Fallbacks = nil, nil
	config.RuntimeParams = sessionParameters()
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting through the socket: %w", err)
	}
	defer connection.Close(context.WithoutCancel(ctx)) // nothing is lost
	return ensureRoles(ctx, connection, credentials)
}

// sessionParameters keep verifiers out of the server's log, and commits from waiting for a synchronous standby.
func sessionParameters() map[string]string {
	return map[string]string{
		"application_name": launcher.Program, "synchronous_commit": "local", "log_statement": "none",
		"log_min_duration_statement": "-1", "log_min_error_statement": "panic",
	}
}

func ensureRoles(ctx context.Context, connection *pgx.Conn, credentials launcher.Credentials) error {
	var inRecovery bool
	if err := connection.QueryRow(ctx, "SELECT pg_catalog.pg_is_in_recovery()").Scan(&inRecovery); err != nil {
		return fmt.Errorf("asking whether the server is a primary: %w", err)
	}
	if inRecovery {
		return errInRecovery
	}
	return errors.Join(
		ensureRole(ctx, connection, launcher.RoleSuperuser, credentials.Superuser),
		ensureRole(ctx, connection, launcher.RoleReplication, credentials.Replication),
	)
}

// ensureRole makes the role where it is missing, as on a volume that Patroni didn't initialize.
func ensureRole(ctx context.Context, connection *pgx.Conn, role, password string) error {
	var stored *string
	var ready bool
	verb := "ALTER"
	err := connection.QueryRow(ctx, "SELECT rolpassword, rolcanlogin AND (rolreplication OR rolsuper) FROM pg_catalog.pg_authid WHERE rolname = $1", role).Scan(&stored, &ready)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		verb = "CREATE"
	case err != nil:
		return fmt.Errorf("looking at the role %s: %w", role, err)
	case ready && stored != nil && scram.Matches(*stored, password):
		return nil
	}
	fresh, err := scram.Verifier(password)
	if err != nil {
		return fmt.Errorf("giving the role %s its password: %w", role, err)
	}
	// A verifier is base64 and "$", ":", "-": nothing in it needs quoting, and DDL takes no parameters.
	statement := fmt.Sprintf("%s ROLE %s LOGIN REPLICATION PASSWORD '%s'", verb, pgx.Identifier{role}.Sanitize(), fresh)
	if _, err := connection.Exec(ctx, statement); err != nil {
		return fmt.Errorf("giving the role %s its password: %w", role, err)
	}
	return nil
}
