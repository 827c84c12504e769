package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/example/databases/internal/postgres"
)

// floorConnections are the numbers of connections that the bare loop runs with. One is for comparison only, and slow: it
// is measured in the first round.
var floorConnections = []int{1, 4, 10}

// floor is what the bare loop took with one number of connections.
type floor struct {
	Connections  int
	Create, Drop timing
	// CreateSQL and DropSQL are the traffic of one creation and one drop.
	CreateSQL, DropSQL perOne
	// CreateCPU and DropCPU are what PostgreSQL used for all.
	CreateCPU, DropCPU time.Duration
}

// perOne is traffic for each of many things.
type perOne struct{ Statements, RoundTrips, WaitedMS float64 }

func (t traffic) per(n int) perOne {
	return perOne{
		Statements: float64(t.Statements) / float64(n),
		RoundTrips: float64(t.RoundTrips) / float64(n),
		WaitedMS:   t.Waited.Seconds() * 1000 / float64(n),
	}
}

// measureFloor makes and drops databases in a bare loop, with the program's own statements.
func measureFloor(ctx context.Context, d *database, prefix string, connections, n int) (floor, error) {
	f := floor{Connections: connections}
	var free []*pgx.Conn
	defer func() {
		for _, conn := range free {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	for range connections {
		conn, err := pgx.Connect(ctx, d.bareDSN)
		if err != nil {
			return f, err
		}
		free = append(free, conn)
	}
	if err := d.checkpoint(ctx); err != nil {
		return f, err
	}
	statements := d.bareStatements()
	all, before, cpuBefore := names(prefix, n), d.bareProxy.snapshot(), cpuOfAll()
	var err error
	if f.Create, err = loop(free, all, func(c *pgx.Conn, name string) error { return send(ctx, c, statements.create(name)) }); err != nil {
		return f, err
	}
	created, cpuCreated := d.bareProxy.snapshot(), cpuOfAll()
	f.Drop, err = loop(free, all, func(c *pgx.Conn, name string) error { return send(ctx, c, statements.drop(name)) })
	f.CreateSQL, f.DropSQL = created.minus(before).per(n), d.bareProxy.snapshot().minus(created).per(n)
	f.CreateCPU, f.DropCPU = cpuCreated.minus(cpuBefore)[postgresProcess], cpuOfAll().minus(cpuCreated)[postgresProcess]
	return f, err
}

// checkpoint lets each measurement begin with nothing left to write of the one before.
func (d *database) checkpoint(ctx context.Context) error { return d.Exec(ctx, "CHECKPOINT") }

// loop does something for each name, with each connection by turns.
func loop(conns []*pgx.Conn, names []string, do func(*pgx.Conn, string) error) (timing, error) {
	free := make(chan *pgx.Conn, len(conns))
	for _, conn := range conns {
		free <- conn
	}
	spans := make(chan span, len(names))
	err := eachOf(names, len(conns), func(name string) error {
		conn := <-free
		defer func() { free <- conn }()
		from := time.Now()
		err := do(conn, name)
		spans <- span{from, time.Now()}
		return err
	})
	close(spans)
	var all []span
	for s := range spans {
		all = append(all, s)
	}
	return timingOf(all), err
}

// bareStatements are the program's statements; each list of a list is one round trip.
type bareStatements struct {
	version  int
	verifier string
}

func (d *database) bareStatements() bareStatements {
	return bareStatements{version: d.Major(), verifier: someVerifier()}
}

func (b bareStatements) create(name string) [][]string {
	id := pgx.Identifier{name}.Sanitize()
	claim := postgres.Claim{Cluster: "bench", Group: "bench", Namespace: namespace, Name: name, UID: name}
	return [][]string{
		{
			"BEGIN",
			"CREATE ROLE " + id + " LOGIN CONNECTION LIMIT -1 PASSWORD '" + b.verifier + "'",
			"COMMENT ON ROLE " + id + " IS '" + claim.String() + "'",
			b.grant(id),
			"COMMIT",
		},
		{"CREATE DATABASE " + id + " OWNER " + id + " TEMPLATE template0 ALLOW_CONNECTIONS false"},
		{
			"BEGIN",
			"SET LOCAL ROLE " + id,
			"REVOKE CONNECT, TEMPORARY ON DATABASE " + id + " FROM PUBLIC",
			"ALTER DATABASE " + id + " ALLOW_CONNECTIONS true",
			"COMMIT",
		},
	}
}

func (b bareStatements) drop(name string) [][]string {
	id := pgx.Identifier{name}.Sanitize()
	return [][]string{
		{"ALTER ROLE " + id + " NOLOGIN", "SET ROLE " + id, "ALTER DATABASE " + id + " ALLOW_CONNECTIONS false"},
		{"DROP DATABASE IF EXISTS " + id + " WITH (FORCE)"},
		{"RESET ROLE", "DROP ROLE IF EXISTS " + id},
	}
}

// grant makes the admin a member, as far as the program needs that.
func (b bareStatements) grant(role string) string {
	sql := "GRANT " + role + " TO CURRENT_USER"
	if b.version >= 16 {
		sql += " WITH INHERIT FALSE, SET TRUE"
	}
	return sql
}

// send sends each list in one round trip, as the program does.
func send(ctx context.Context, conn *pgx.Conn, trips [][]string) error {
	for _, statements := range trips {
		if len(statements) == 1 {
			if _, err := conn.PgConn().Exec(ctx, statements[0]).ReadAll(); err != nil {
				return fmt.Errorf("bare loop: %w", err)
			}
			continue
		}
		if err := sendBatch(ctx, conn, statements); err != nil {
			return fmt.Errorf("bare loop: %w", err)
		}
	}
	return nil
}

func sendBatch(ctx context.Context, conn *pgx.Conn, statements []string) error {
	batch := &pgconn.Batch{}
	for _, sql := range statements {
		batch.ExecParams(sql, nil, nil, nil, nil)
	}
	_, err := conn.PgConn().ExecBatch(ctx, batch).ReadAll()
	return err
}

// someVerifier has the form of a SCRAM verifier, which is all that the server looks at.
func someVerifier() string {
	random := func(n int) string {
		bytes := make([]byte, n)
		rand.Read(bytes) // never fails; see crypto/rand
		return base64.StdEncoding.EncodeToString(bytes)
	}
	return fmt.Sprintf("SCRAM-SHA-256$4096:%s$%s:%s", random(16), random(32), random(32))
}
