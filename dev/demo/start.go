package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/example/databases/api/crds"
	"github.com/example/databases/internal/postgres/postgrestest"
)

const (
	// adminRole is the controller's login at PostgreSQL.
	adminRole = "databases_admin"
	// controllerGrace is a little more than the program takes at most to stop.
	controllerGrace = 25 * time.Second
)

// prepare makes the folder and finds what must be there.
func prepare(_ context.Context, s *stage) error {
	if _, err := exec.LookPath("psql"); err != nil {
		return errors.New("psql is missing: run dev/setup demo")
	}
	var err error
	if s.checkout, err = findCheckout(); err != nil {
		return err
	}
	return s.makeFolder()
}

// startPostgres starts an installed PostgreSQL and makes the controller's weak admin there.
func startPostgres(ctx context.Context, s *stage) error {
	return s.screen.working("Starting PostgreSQL", func() error { return s.startServer(ctx) })
}

func (s *stage) startServer(ctx context.Context) error {
	server, err := postgrestest.Launch(ctx, postgrestest.Options{Installed: true})
	if err != nil {
		return err
	}
	s.postgres = server
	s.atEnd(server.Close)
	dsn, err := server.WeakAdmin(ctx, adminRole)
	if err != nil {
		return err
	}
	if err := s.write("admin.dsn", dsn+"\n"); err != nil {
		return err
	}
	admin, err := url.Parse(dsn)
	if err != nil {
		return errors.New("the admin's DSN can't be parsed") // the error would quote it
	}
	password, _ := admin.User.Password()
	service := fmt.Sprintf("[admin]\nhost=%s\nport=%d\nuser=%s\npassword=%s\ndbname=postgres\nsslmode=disable\n",
		server.Host(), server.Port(), adminRole, password)
	return s.write("pg_service.conf", service)
}

// openShell starts the shell of the story, in a folder with the files that it names.
func openShell(_ context.Context, s *stage) error {
	const manifests = "api/crds"
	if err := os.MkdirAll(s.file(manifests), 0o700); err != nil {
		return err
	}
	err := fs.WalkDir(crds.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := crds.FS.ReadFile(name)
		if err != nil {
			return err
		}
		return s.write(filepath.Join(manifests, name), string(content))
	})
	if err != nil {
		return err
	}
	s.shell, err = startShell(s.folder, s.environment("KUBECONFIG="+s.file("kubeconfig"), "PGSERVICEFILE="+s.file("pg_service.conf"),
		"PSQLRC=/dev/null", "PGCONNECT_TIMEOUT=10"))
	if err == nil {
		s.atEnd(s.shell.close)
	}
	return err
}

// buildController builds the program that all this is about.
func buildController(ctx context.Context, s *stage) error {
	return s.build(ctx, "the controller", ".", "databases", "./cmd/databases")
}

// startController starts the controller.
func startController(_ context.Context, s *stage) error {
	settings := []string{
		"KUBECONFIG=kubeconfig", "POSTGRES_ADMIN_DSN_FILE=admin.dsn",
		"POSTGRES_HOST=" + s.postgres.Host(), fmt.Sprintf("POSTGRES_PORT=%d", s.postgres.Port()),
	}
	s.screen.command(strings.Join(settings[:2], " ") + " \\\n  " + strings.Join(settings[2:], " ") + " \\\n  databases 2>" + controllerLog + " &")
	log, err := os.OpenFile(s.file(controllerLog), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(s.file(programs + "/databases"))
	command.Dir, command.Env = s.folder, s.environment(settings...)
	command.Stdout, command.Stderr = log, log
	controller, err := startService("the controller", controllerLog, command, s.end)
	if err != nil {
		return err
	}
	s.atEnd(func() error {
		err := controller.stop(controller.terminate, controllerGrace)
		_ = os.Remove(s.file(controllerPID)) // the number may soon be another process's; the reaper must not kill that
		return err
	})
	return s.write(controllerPID, fmt.Sprintln(command.Process.Pid))
}
