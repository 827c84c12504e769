package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerEnv); dir != "" {
		ownServerForever(dir)
	}
	os.Exit(m.Run())
}

func TestEveryVersionAsksForPasswords(t *testing.T) {
	for _, major := range Versions {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			server := Start(t, Options{Major: major})
			rows := query(t, server, "SELECT current_setting('server_version_num')::int / 10000, rolsuper FROM pg_roles WHERE rolname = current_user")
			if diff := cmp.Diff([][]string{{fmt.Sprint(major), "t"}}, rows); diff != "" {
				t.Errorf("version and superuser (-want +got):\n%s", diff)
			}
			wantCode(t, server.DSN("postgres", "wrong", "postgres"), "28P01")
			wantCode(t, server.DSN("nobody", "", "postgres"), "28P01")
		})
	}
}

func TestDataAndPortSurviveStopAndKill(t *testing.T) {
	ctx := t.Context()
	server := Start(t, Options{Major: 17})
	port := server.Port()
	execute(t, server, "CREATE TABLE kept (step text)", "INSERT INTO kept VALUES ('before')")
	for _, end := range []func() error{server.Stop, server.Kill} {
		if err := errors.Join(end(), end()); err != nil {
			t.Fatal(err)
		}
		if _, err := pgx.Connect(ctx, server.SuperuserDSN()); err == nil {
			t.Fatal("logged in at a stopped server")
		}
		if err := server.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		execute(t, server, "INSERT INTO kept VALUES ('after')")
	}
	if err := server.Restart(ctx); err != nil { // a running one
		t.Fatal(err)
	}
	rows := query(t, server, "SELECT step, count(*) FROM kept GROUP BY step ORDER BY step DESC")
	if diff := cmp.Diff([][]string{{"before", "1"}, {"after", "2"}}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if server.Port() != port {
		t.Errorf("port is %d, was %d", server.Port(), port)
	}
}

func TestCloseRemovesTheFolderAndMayBeRepeated(t *testing.T) {
	server := Start(t, Options{Major: 16})
	for range 2 {
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(server.folder.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestDSNKeepsEveryCharacter(t *testing.T) {
	server := Start(t, Options{Major: 15})
	const user, password, database = `a b@c:d/e?f#g%h'"&=+é`, `p w@c:d/e?f#g%h"&=+é\`, `d b@c:d/e?f#g%h'&=+é`
	execute(t, server,
		"SET standard_conforming_strings = on",
		"CREATE ROLE "+pgx.Identifier{user}.Sanitize()+" LOGIN PASSWORD '"+password+"'",
		"CREATE DATABASE "+pgx.Identifier{database}.Sanitize(),
	)
	var gotUser, gotDatabase string
	conn := connect(t, server.DSN(user, password, database))
	if err := conn.QueryRow(t.Context(), "SELECT current_user, current_database()").Scan(&gotUser, &gotDatabase); err != nil {
		t.Fatal(err)
	}
	if gotUser != user || gotDatabase != database {
		t.Errorf("logged in as %q at %q", gotUser, gotDatabase)
	}
}

func TestWeakAdminIsWeakAndItsPasswordIsNotLogged(t *testing.T) {
	server := Start(t, Options{Major: 18, Settings: map[string]string{"log_statement": "all", "log_min_duration_statement": "0"}})
	dsn, err := server.WeakAdmin(t.Context(), "admin")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, dsn)
	var attributes string
	err = conn.QueryRow(t.Context(), `SELECT concat_ws(' ', rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls)
		FROM pg_roles WHERE rolname = current_user`).Scan(&attributes)
	if err != nil {
		t.Fatal(err)
	}
	if attributes != "f t t f f" {
		t.Errorf("superuser, createdb, createrole, replication, bypassrls are %s", attributes)
	}
	_, err = server.WeakAdmin(t.Context(), "admin")
	if code := codeOf(err); code != "42710" {
		t.Errorf("making it again: %v", err)
	}
	log, err := server.Log()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log, "concat_ws") {
		t.Error("statements are not in the log")
	}
	for _, secret := range []string{conn.Config().Password, server.password, "CREATE ROLE"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

func TestTLSIsVerified(t *testing.T) {
	server := Start(t, Options{Major: 14, TLS: true})
	rows := query(t, server, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
	if diff := cmp.Diff([][]string{{"t"}}, rows); diff != "" {
		t.Errorf("TLS (-want +got):\n%s", diff)
	}
}

func TestHBAHoldsWhenSetHBAReturns(t *testing.T) {
	ctx := t.Context()
	server := Start(t, Options{Major: 16})
	dsn, err := server.WeakAdmin(ctx, "admin")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := server.SetHBA(ctx); err != nil {
			t.Fatal(err)
		}
		wantCode(t, dsn, "28000")
		if err := server.SetHBA(ctx, PasswordHBA); err != nil {
			t.Fatal(err)
		}
		connect(t, dsn)
	}
	if err := server.SetHBA(ctx, "nonsense"); err == nil {
		t.Error("nonsense was accepted")
	}
}

func TestInstalledServerHasContribModules(t *testing.T) {
	server := Start(t, Options{Installed: true, Settings: map[string]string{"shared_preload_libraries": "passwordcheck"}})
	err := server.Exec(t.Context(), "CREATE ROLE weak PASSWORD 'short'")
	if code := codeOf(err); code != "22023" {
		t.Errorf("a short password: %v", err)
	}
	_, major, err := Installed()
	if err != nil || major != server.Major() {
		t.Errorf("Installed is %d, %v; the server is %d", major, err, server.Major())
	}
}

func TestFaultsOfTheCallerAreErrors(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx     context.Context
		options Options
		want    string
	}{
		"an unsupported version":      {t.Context(), Options{Major: 13}, "no PostgreSQL 13"},
		"no version":                  {t.Context(), Options{}, "no PostgreSQL 0"},
		"a version not installed":     {t.Context(), Options{Major: 9, Installed: true}, "no PostgreSQL 9 server is installed"},
		"a setting that isn't one":    {t.Context(), Options{Major: 16, Settings: map[string]string{"nonsense": "on"}}, `unrecognized configuration parameter "nonsense"`},
		"a context that is done":      {cancelled, Options{Major: 16}, "context canceled"},
		"a folder that doesn't exist": {t.Context(), Options{Major: 16, Dir: "/nonexistent"}, "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := Launch(test.ctx, test.options)
			if err == nil {
				t.Fatal(errors.Join(errors.New("it started"), server.Close()))
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, want %q in it", err, test.want)
			}
		})
	}
}

func execute(t *testing.T, server *Server, statements ...string) {
	t.Helper()
	if err := server.Exec(t.Context(), statements...); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, server *Server, sql string) [][]string {
	t.Helper()
	rows, err := server.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// wantCode requires that a login is refused with an SQLSTATE.
func wantCode(t *testing.T, dsn, want string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err == nil {
		conn.Close(t.Context())
	}
	if got := codeOf(err); got != want {
		t.Errorf("login as %q: %v, want SQLSTATE %s", dsn, err, want)
	}
}

// codeOf returns the SQLSTATE of an error, or nothing.
func codeOf(err error) string {
	var fault *pgconn.PgError
	if errors.As(err, &fault) {
		return fault.Code
	}
	return ""
}
