package roles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/postgres/postgrestest"
)

// TestEnsureRoles adopts a server whose roles have other passwords, or none, and leaves right ones alone.
func TestEnsureRoles(t *testing.T) {
	for _, major := range []int{launcher.OldestMajor, launcher.NewestMajor} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			server := postgrestest.Start(t, postgrestest.Options{Major: major, Settings: map[string]string{"log_statement": "all"}})
			config, err := pgx.ParseConfig(server.SuperuserDSN())
			if err != nil {
				t.Fatal(err)
			}
			config.RuntimeParams = sessionParameters()
			connection, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close(t.Context())
			stored := func() (all string) {
				t.Helper()
				row := connection.QueryRow(t.Context(), "SELECT string_agg(rolname || ' ' || coalesce(rolpassword, ''), ',' ORDER BY rolname) FROM pg_authid WHERE rolcanlogin")
				if err := row.Scan(&all); err != nil {
					t.Fatal(err)
				}
				return all
			}
			logsIn := func(user, password string) error {
				c, err := pgx.Connect(t.Context(), server.DSN(user, password, "postgres"))
				if err == nil {
					err = c.Close(t.Context())
				}
				return err
			}
			before := ""
			for _, password := range []string{"first", "first", "s e'cond\\ü", "1234"} {
				credentials := launcher.Credentials{Superuser: "p" + password, Replication: "r" + password}
				if err := ensureRoles(t.Context(), connection, credentials); err != nil {
					t.Fatal(err)
				}
				if err := logsIn(launcher.RoleSuperuser, credentials.Superuser); err != nil {
					t.Error(err)
				}
				if err := logsIn(launcher.RoleReplication, credentials.Replication); err != nil {
					t.Error(err)
				}
				if err := logsIn(launcher.RoleReplication, "wrong"); err == nil {
					t.Error("the server doesn't ask for passwords")
				}
				after := stored()
				if password == "first" && before != "" && after != before {
					t.Error("verifiers changed though the passwords didn't")
				}
				before = after
			}
			log, err := server.Log()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(log, "SCRAM-SHA-256$") || strings.Contains(log, "ALTER ROLE") {
				t.Error("the server's log has the statements")
			}
		})
	}
}

func TestCallbackOfAStandbyDoesNothing(t *testing.T) {
	for _, role := range []string{"replica", "standby_leader", "uninitialized", ""} {
		if err := Callback(t.Context(), "on_start", role, func(string) string { return "/nowhere" }); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
	if err := Callback(t.Context(), "on_start", "primary", func(string) string { return "/nowhere" }); err == nil {
		t.Error("a missing Secret is no error")
	}
}

// TestCallbackWaitsNoLongerThanItsContext: Patroni kills a callback when the next one is due.
func TestCallbackWaitsNoLongerThanItsContext(t *testing.T) {
	dir := t.TempDir()
	for _, key := range []string{launcher.KeySuperuser, launcher.KeyReplication, launcher.KeyREST} {
		if err := os.WriteFile(filepath.Join(dir, key), []byte("pw-of-"+key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := Callback(ctx, "on_start", "primary", func(string) string { return dir }) // no socket there
	if err == nil || time.Since(start) > 10*time.Second || strings.Contains(err.Error(), "pw-of-") {
		t.Errorf("error %v after %s", err, time.Since(start))
	}
}
