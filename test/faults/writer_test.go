//go:build linux

package faults

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/example/databases/internal/postgres/postgrestest"
)

// eventually waits for what comes in seconds on an idle machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

func startWriter(t *testing.T, server *postgrestest.Server, first int64) *Writer {
	t.Helper()
	program, err := BuildWriter(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(server.SuperuserDSN())
	if err != nil {
		t.Fatal(err)
	}
	login := Login{Host: config.Host, Port: config.Port, Database: config.Database, User: config.User, Password: config.Password, First: first}
	w, err := StartWriter(login, program)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWriterThroughARestart: each row that the Writer calls acknowledged is there, the gap covers the time without a server,
// and the Ledger finds a row that is gone.
func TestWriterThroughARestart(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
	ledger := &Ledger{}
	w := startWriter(t, server, ledger.Next())
	eventually(t, "rows are written", func() bool { return len(w.Acknowledged()) > 10 })
	fault := time.Now()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	down := time.Now()
	eventually(t, "the writer finds no server", func() bool { return len(w.Failures(down)) > 0 })
	if gap := w.LongestGap(fault); gap < time.Since(down)/2 {
		t.Errorf("while nothing is acknowledged the gap is %s", gap)
	}
	up := time.Now()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(w.Acknowledged())
	eventually(t, "rows are written again", func() bool { return len(w.Acknowledged()) > before+10 })
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if gap := w.LongestGap(fault); gap < up.Sub(down) {
		t.Errorf("the longest gap is %s, and there was no server for %s", gap, up.Sub(down))
	}
	acks := w.Acknowledged()
	for i := range acks[1:] {
		if acks[i+1].ID <= acks[i].ID || acks[i+1].At.Before(acks[i].At) {
			t.Fatalf("%v follows on %v", acks[i+1], acks[i])
		}
	}
	failures := w.Failures(time.Time{})
	for i := range failures[1:] {
		if pause := failures[i+1].At.Sub(failures[i].At); pause < 50*time.Millisecond {
			t.Fatalf("it tried again %s after a failure", pause)
		}
	}
	ledger.Add(acks)
	conn := connect(t, server)
	expectMissing(t, ledger, conn)
	victim := acks[len(acks)/2].ID
	if _, err := conn.Exec(t.Context(), "DELETE FROM "+Table+" WHERE id = $1", victim); err != nil {
		t.Fatal(err)
	}
	expectMissing(t, ledger, conn, victim)
	ledger.Forget([]int64{victim})
	expectMissing(t, ledger, conn)
}

func expectMissing(t *testing.T, ledger *Ledger, conn *pgx.Conn, want ...int64) {
	t.Helper()
	missing, err := ledger.Missing(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) != len(want) || len(want) == 1 && missing[0] != want[0] {
		t.Errorf("missing are %v, want %v", missing, want)
	}
}

func connect(t *testing.T, server *postgrestest.Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.SuperuserDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestRowsOnNoStandby: a row for which PostgreSQL gave up waiting for a standby is there and isn't acknowledged.
func TestRowsOnNoStandby(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
	w := startWriter(t, server, 1)
	eventually(t, "rows are written", func() bool { return len(w.Acknowledged()) > 0 })
	if err := server.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	warned := func() *Failure {
		for _, f := range w.Failures(time.Time{}) {
			if f.Kind == "warned" {
				return &f
			}
		}
		return nil
	}
	eventually(t, "a row is given up", func() bool {
		if err := server.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
			t.Fatal(err)
		}
		return warned() != nil
	})
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	id := warned().ID
	for _, ack := range w.Acknowledged() {
		if ack.ID == id {
			t.Errorf("the row %d is acknowledged", id)
		}
	}
	var there bool
	if err := connect(t, server).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM "+Table+" WHERE id = $1)", id).Scan(&there); err != nil || !there {
		t.Errorf("the row %d is there: %t, %v", id, there, err)
	}
}

func TestLongestGap(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	acks := func(all ...int) (list []Ack) {
		for i, ms := range all {
			list = append(list, Ack{int64(i), at(ms)})
		}
		return list
	}
	for _, test := range []struct {
		sentence           string
		acks               []Ack
		since, until, want int
	}{
		{"a gap before the fault doesn't count", acks(0, 900, 950, 1000, 1050), 960, 1100, 50},
		{"the gap begins with the last row before the fault", acks(0, 40, 500, 540), 50, 560, 460},
		{"a later gap counts if it is longer", acks(0, 40, 100, 800), 50, 820, 700},
		{"what goes on still counts", acks(0, 40), 50, 1000, 960},
		{"without any row it is all the time since the fault", nil, 100, 1000, 900},
	} {
		got := longestGap(test.acks, at(test.since), at(test.until))
		if got != time.Duration(test.want)*time.Millisecond {
			t.Errorf("%s: %s, want %d ms", test.sentence, got, test.want)
		}
	}
}
