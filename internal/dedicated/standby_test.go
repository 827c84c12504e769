package dedicated

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	corev1 "k8s.io/api/core/v1"
)

// stream connects to the PostgreSQL as a standby of that name does, and says of each piece of the log that it has it, but for
// the last bytes that it lacks.
func (s *stage) stream(name string, lacks uint64) (stop func()) {
	s.Helper()
	config, err := pgconn.ParseConfig(s.postgres.DSN("postgres", s.password(), "postgres"))
	if err != nil {
		s.Fatal(err)
	}
	config.RuntimeParams["replication"], config.RuntimeParams["application_name"] = "true", name
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		s.Fatal(err)
	}
	system, err := conn.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll()
	if err != nil {
		s.Fatal(err)
	}
	at := string(system[0].Rows[0][2])
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + at})
	if err := conn.Frontend().Flush(); err != nil {
		s.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		acknowledge(ctx, conn, position(at), lacks)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		_ = conn.Close(context.Background())
	})
	s.Cleanup(stop)
	s.eventually(name+" streams", func() bool {
		admin, err := s.connectAs(&corev1.Pod{}, s.password())
		if err != nil {
			s.Fatal(err)
		}
		defer admin.Close()
		standbys, err := admin.Standbys(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		lag, streams := standbys[name]
		return streams && lag >= int64(lacks)
	})
	return stop
}

// acknowledge answers each message of the primary until ctx ends.
func acknowledge(ctx context.Context, conn *pgconn.PgConn, end, lacks uint64) {
	for {
		message, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.CopyBothResponse:
		case *pgproto3.CopyData:
			switch {
			case m.Data[0] == 'k':
				end = binary.BigEndian.Uint64(m.Data[1:])
			case m.Data[0] == 'w':
				end = binary.BigEndian.Uint64(m.Data[1:]) + uint64(len(m.Data)-25)
			}
		default:
			continue
		}
		status := []byte{'r'}
		for _, field := range []uint64{end - lacks, end - lacks, end - lacks, 0} { // written, flushed, applied; the clock
			status = binary.BigEndian.AppendUint64(status, field)
		}
		conn.Frontend().Send(&pgproto3.CopyData{Data: append(status, 0)})
		if conn.Frontend().Flush() != nil {
			return
		}
	}
}

// position is a place in the log, as PostgreSQL writes it.
func position(text string) uint64 {
	high, low, _ := strings.Cut(text, "/")
	h, _ := strconv.ParseUint(high, 16, 32)
	l, _ := strconv.ParseUint(low, 16, 32)
	return h<<32 | l
}
