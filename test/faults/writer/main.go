//go:build linux

// Command writer writes to a Database as an application does that must not lose anything: one row after the other, each
// with a new id, connecting again whenever something fails. package faults starts it and reads what it prints.
//
// Its first line of standard input is a Login in JSON, so that no password is in its arguments or its environment. It
// ends when its standard input does. It prints
//
//	start NANOSECONDS        its clock's beginning, as Unix time
//	ack ID NANOSECONDS       this row was acknowledged, so long after the start
//	fail ID NANOSECONDS WHY  this one wasn't, and may be there or not; ID is 0 where there was no connection
//
// Invariants: an id is used once; nothing is acknowledged that PostgreSQL said it couldn't hand to a standby; no line has
// more of an error than its kind.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/example/databases/test/faults"
)

const (
	connectLimit = time.Second
	insertLimit  = 2 * time.Second
	pace         = 20 * time.Millisecond
	// pause is how long it waits after a failure: to try without a pause takes the time of a server that starts.
	pause = 50 * time.Millisecond
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}

func run() error {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadString('\n')
	if err != nil {
		return errors.New("no login in standard input")
	}
	var login faults.Login
	if err := json.Unmarshal([]byte(line), &login); err != nil {
		return errors.New("the login in standard input isn't JSON") // the cause might quote it
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	w, err := newWriter(login)
	if err != nil {
		return err
	}
	fmt.Println("start", w.start.UnixNano())
	for ctx.Err() == nil {
		began := time.Now()
		rest := pause
		if w.next() {
			rest = pace - time.Since(began)
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
	w.disconnect()
	return nil
}

type writer struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
	warned bool // PostgreSQL said with the answer that no standby has the row
	table  bool
	id     int64
	start  time.Time
}

func newWriter(login faults.Login) (*writer, error) {
	config, err := login.Config()
	if err != nil {
		return nil, err
	}
	w := &writer{config: config, id: login.First, start: time.Now()}
	config.ConnectTimeout = connectLimit
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(insertLimit.Milliseconds())
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		w.warned = w.warned || notice.SeverityUnlocalized == "WARNING"
	}
	return w, nil
}

// next writes a row, or connects and writes one, and says whether it did. It is not interrupted.
func (w *writer) next() bool {
	ctx := context.Background()
	if err := w.connect(ctx); err != nil {
		w.failed(0, err)
		return false
	}
	id := w.id
	w.id++
	limited, cancel := context.WithTimeout(ctx, insertLimit)
	defer cancel()
	w.warned = false
	_, err := w.conn.Exec(limited, "INSERT INTO "+faults.Table+" (id) VALUES ($1)", id)
	if err == nil && w.warned {
		err = errWarned
	}
	if err != nil {
		w.failed(id, err)
		w.disconnect()
		return false
	}
	fmt.Println("ack", id, time.Since(w.start).Nanoseconds())
	return true
}

var errWarned = errors.New("not on a standby")

func (w *writer) failed(id int64, err error) {
	fmt.Println("fail", id, time.Since(w.start).Nanoseconds(), kind(err))
}

func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn == nil {
		limited, cancel := context.WithTimeout(ctx, connectLimit)
		defer cancel()
		if w.conn, err = pgx.ConnectConfig(limited, w.config); err != nil {
			w.conn = nil
			return err
		}
	}
	if w.table {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, insertLimit)
	defer cancel()
	if _, err := w.conn.Exec(limited, "CREATE TABLE IF NOT EXISTS "+faults.Table+" (id bigint PRIMARY KEY)"); err != nil {
		w.disconnect()
		return err
	}
	w.table = true
	return nil
}

func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = w.conn.Close(ctx) // whatever it says, another one is made
	w.conn = nil
}

// kind is what an application can tell errors apart by: PostgreSQL's code, or how the connection failed.
func kind(err error) string {
	var server *pgconn.PgError
	var network net.Error
	switch {
	case errors.Is(err, errWarned):
		return "warned"
	case errors.As(err, &server):
		return server.Code
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "closed"):
		return "closed"
	}
	return "other"
}
