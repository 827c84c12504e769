package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	settingsFile    = dataDir + "/postgrestest.conf"
	passwordFile    = "password"
	certificateFile = "server.crt"
	keyFile         = "server.key"
)

// errPortTaken says that somebody took the port between our look and the
// server's start.
var errPortTaken = errors.New("the port is taken")

// create makes the server's data and starts the server for the first time.
func (s *Server) create(ctx context.Context) error {
	if err := s.initialize(ctx); err != nil {
		return err
	}
	if s.tls {
		if err := s.writeCertificate(); err != nil {
			return err
		}
	}
	var err error
	for range 5 {
		if s.port, err = freePort(ctx); err != nil {
			return err
		}
		if err = s.writeSettings(); err != nil {
			return err
		}
		if err = s.run(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
		if err := os.Truncate(s.folder.path(logFile), 0); err != nil {
			return err
		}
	}
	return err
}

// initialize runs initdb. Its own default is to trust everybody, with which
// no test of a password could fail.
//
// If this process is killed meanwhile, initdb still runs to its end: it takes a
// second, and the servers it starts would leave shared memory behind if they
// were killed or lost their folder. Its hold on the folder makes the reaper
// wait.
func (s *Server) initialize(ctx context.Context) error {
	if err := s.folder.write(passwordFile, []byte(s.password)); err != nil {
		return err
	}
	initdb := s.command(ctx, "initdb",
		"--pgdata="+s.data(),
		"--username=postgres",
		"--pwfile="+s.folder.path(passwordFile),
		"--auth=scram-sha-256",
		"--encoding=UTF8",
		"--locale=C",
		"--no-sync",
	)
	initdb.ExtraFiles = []*os.File{s.folder.hold}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := os.Remove(s.folder.path(passwordFile)); err != nil {
		return err
	}
	conf, err := os.OpenFile(s.folder.path(dataDir+"/postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString("include 'postgrestest.conf'\n")
	return errors.Join(err, conf.Close())
}

// writeSettings writes the package's settings and the caller's over them.
//
// synchronous_commit stays on: without fsync it costs next to nothing, and
// what was committed is still there after Kill.
func (s *Server) writeSettings() error {
	settings := map[string]string{
		"listen_addresses":          loopback,
		"port":                      strconv.Itoa(s.port),
		"unix_socket_directories":   "",
		"max_connections":           "100",
		"max_prepared_transactions": "5",
		"shared_buffers":            "16MB",
		"fsync":                     "off",
		"full_page_writes":          "off",
		"log_timezone":              "UTC",
		"log_line_prefix":           "%m [%p] user=%u db=%d app=%a ",
	}
	if s.tls {
		settings["ssl"] = "on"
		settings["ssl_cert_file"] = s.folder.path(certificateFile)
		settings["ssl_key_file"] = s.folder.path(keyFile)
	}
	maps.Copy(settings, s.settings)
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return s.folder.write(settingsFile, []byte(conf.String()))
}

// run starts the postmaster and waits until the superuser can log in.
func (s *Server) run(ctx context.Context) error {
	log, err := os.OpenFile(s.folder.path(logFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// Not ctx: the server runs on after the start.
	postgres := s.command(context.Background(), "postgres", "-D", s.data())
	postgres.Stdout, postgres.Stderr = log, log
	if s.process, err = startProcess(postgres); err != nil {
		s.process = nil
		return err
	}
	if err := s.awaitLogin(ctx); err != nil {
		return errors.Join(err, s.Kill())
	}
	return nil
}

// awaitLogin returns when the superuser has logged in, the postmaster has
// ended or the time is up.
func (s *Server) awaitLogin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.SuperuserDSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.done:
			return s.startFailure()
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startFailure says from the log why the postmaster ended.
func (s *Server) startFailure() error {
	log, err := s.Log()
	if err != nil {
		return err
	}
	if strings.Contains(log, "could not create any TCP/IP sockets") {
		return fmt.Errorf("%w: %d", errPortTaken, s.port)
	}
	const tail = 2000
	return fmt.Errorf("the server ended: %s", log[max(0, len(log)-tail):])
}

// freePort returns a port that nothing listens on. It is from below the range
// of outgoing connections and of Kubernetes' node ports, so that it is very
// likely still free when a stopped server comes back.
func freePort(ctx context.Context) (int, error) {
	const from, to = 15000, 30000
	for range 100 {
		port := from + rand.IntN(to-from)
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d", from, to)
}
