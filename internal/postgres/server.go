package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/example/databases/internal/reload"
)

// MaxConnections is how many connections the admin holds at most. More gain nothing: the server makes databases no
// faster.
const MaxConnections = 4

const (
	maxRounds     = 3  // of observing and changing until nothing is left to change
	maxRaces      = 10 // answers that only say that somebody else was changing the same row
	raceDelay     = 20 * time.Millisecond
	probeTimeout  = 10 * time.Second
	idleTime      = 15 * time.Minute
	silence       = 15 * time.Second // after which a server that doesn't answer the one SELECT counts as down
	rollbackLimit = 5 * time.Second
)

// Interceptor is put around each round trip to the server, named by its statements' summaries: tracing, counting and
// faults are interceptors. It calls call at most once.
type Interceptor func(ctx context.Context, operation string, call func(context.Context) error) error

// Server is the Admin of one PostgreSQL server.
type Server struct {
	source    dsnSource
	intercept Interceptor
	breaker   breaker
	login     chan struct{} // holds one token: one login check at a time

	// claims is held while a claim is compared and written, so that of two resources that take over one role only
	// one succeeds. A lock in PostgreSQL would be one that a tenant could hold.
	claims sync.Mutex

	lifetime context.Context // ends with Close
	close    context.CancelFunc

	mu   sync.Mutex
	pool *pgxpool.Pool
	sum  [sha256.Size]byte // of the DSN that the pool was made of

	dsnChanged func(error)
}

var _ Admin = (*Server)(nil)

// NewServer makes the Admin of the server that the DSN in the file names. It doesn't connect. intercept may be nil.
func NewServer(dsnFile string, intercept Interceptor) (*Server, error) {
	source, err := newSource(dsnFile)
	if err != nil {
		return nil, err
	}
	s := newServer(source, intercept)
	go s.watchFile()
	return s, nil
}

// NewServerAt makes the Admin of the server at the end of a connection that never changes. It doesn't connect.
// intercept may be nil.
func NewServerAt(c Connection, intercept Interceptor) (*Server, error) {
	dsn, err := c.dsn()
	if err != nil {
		return nil, err
	}
	return newServer(fixed(dsn), intercept), nil
}

func newServer(source dsnSource, intercept Interceptor) *Server {
	if intercept == nil {
		intercept = func(ctx context.Context, _ string, call func(context.Context) error) error { return call(ctx) }
	}
	s := &Server{source: source, intercept: intercept, login: make(chan struct{}, 1)}
	s.lifetime, s.close = context.WithCancel(context.Background())
	s.breaker.probe = s.probe
	s.breaker.poke = make(chan struct{}, 1)
	return s
}

// Close ends the server's connections, waiting for calls in flight.
func (s *Server) Close() {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool != nil {
		s.pool.Close()
	}
}

// Notify adds a function that is called when the server becomes unreachable, with the reason, and when it can be
// reached again, with nil. It must not block.
func (s *Server) Notify(f func(error)) { s.breaker.notify(f) }

// SSLMode is the sslmode of the admin's DSN as it is now.
func (s *Server) SSLMode() string {
	dsn, _ := s.source.current()
	return dsn.SSLMode()
}

// DSNError is why the DSN file in its present form can't be used, nil where it can. The last good DSN stays in use.
func (s *Server) DSNError() error {
	_, err := s.source.current()
	return err
}

// NotifyDSN sets the function that is called when the DSN file can't be used any more, with the reason, and when it
// can be used again, with nil. It must not block.
func (s *Server) NotifyDSN(f func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dsnChanged = f
}

// watchFile lets a changed DSN take effect also while nobody calls, and ends the wait of an open breaker.
func (s *Server) watchFile() {
	tick := time.NewTicker(2 * reload.Interval)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-s.lifetime.Done():
			return
		case <-tick.C:
		}
		dsn, err := s.source.current()
		s.mu.Lock()
		stale, tell := s.pool != nil && s.sum != dsn.sum, s.dsnChanged
		s.mu.Unlock()
		if tell != nil && (err != nil) != failed {
			failed = err != nil
			tell(err)
		}
		switch {
		case !stale:
		case s.breaker.refusal() == nil:
			_, _ = s.currentPool()
		default:
			select {
			case s.breaker.poke <- struct{}{}:
			default:
			}
		}
	}
}

// currentPool is the pool of the DSN as it is now; the pool of an older one is closed as its calls end.
func (s *Server) currentPool() (*pgxpool.Pool, error) {
	dsn, _ := s.source.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool != nil && s.sum == dsn.sum {
		return s.pool, nil
	}
	if err := s.lifetime.Err(); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.ConnConfig = dsn.config.Copy()
	config.MaxConns = MaxConnections
	config.MinConns = 0
	config.MaxConnIdleTime = idleTime
	config.MaxConnLifetime = 24 * time.Hour // a changed DSN retires them, and a broken one is found when it is used
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		limited, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		_, err := conn.Prepare(limited, observeName, observeSQL)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", errSilent, err)
		}
		return err
	}
	pool, err := pgxpool.NewWithConfig(s.lifetime, config)
	if err != nil {
		return nil, err
	}
	if s.pool != nil {
		go s.pool.Close()
	}
	s.pool, s.sum = pool, dsn.sum
	return pool, nil
}

func (s *Server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	pool, err := s.currentPool()
	if err != nil {
		return err
	}
	pool.Reset() // a new connection shows whether the server takes one
	return s.intercept(ctx, "CONNECT", pool.Ping)
}

// run calls f with a connection. A connection that turns out to be dead is replaced once, so f may run twice: it must
// begin by observing. A server that can't be reached opens the breaker.
func (s *Server) run(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	if err := s.breaker.refusal(); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		pool, err := s.currentPool()
		if err != nil {
			return errorf(KindFailed, err, "The connection to PostgreSQL could not be set up.")
		}
		conn, err := pool.Acquire(ctx)
		switch {
		case err == nil:
			err = use(ctx, conn, f)
		case s.retired(pool):
			attempt--
			continue // the DSN changed: the new pool
		case sqlState(err) == codeTooManyConnections && pool.Stat().TotalConns() > 0:
			// The tenants have all others, but what we hold still serves.
			attempt--
			if pause(ctx) == nil {
				continue
			}
			return errorf(KindFailed, err, "%s", connectMessage(err))
		case !isUnavailable(err):
			return errorf(KindFailed, err, "No connection to PostgreSQL was free in time.")
		}
		if err == nil || !isUnavailable(err) {
			return err
		}
		var connect *pgconn.ConnectError
		if errors.As(err, &connect) || attempt > 0 {
			refusal := unavailable(err)
			s.breaker.open(s.lifetime, refusal)
			return refusal
		}
		pool.Reset() // the server restarted: its other connections are as dead
	}
}

// use calls f and gives the connection back, also where f panics: then it is closed, because it may be another role, or
// within a transaction.
func use(ctx context.Context, conn *pgxpool.Conn, f func(context.Context, *pgx.Conn) error) error {
	defer conn.Release()
	ended := false
	defer func() {
		if !ended {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	err := f(ctx, conn.Conn())
	ended = true
	return err
}

// retired reports whether the pool is that of an older DSN.
func (s *Server) retired(pool *pgxpool.Pool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pool != pool && s.lifetime.Err() == nil
}

// pause waits a little, before looking again at what somebody else is changing.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(raceDelay):
		return nil
	}
}

// observe reads the state of a role and a database.
func (s *Server) observe(parent context.Context, conn *pgx.Conn, role, database string) (State, error) {
	var state State
	ctx, cancel := context.WithTimeout(parent, silence)
	defer cancel()
	err := s.intercept(ctx, observeSummary, func(ctx context.Context) error {
		var err error
		state, err = observe(ctx, conn, role, database)
		return err
	})
	switch {
	case err == nil:
		return state, nil
	case ctx.Err() != nil && parent.Err() == nil:
		return State{}, fmt.Errorf("%w: %w", errSilent, err)
	}
	return State{}, s.explain(err, failure{statement: Statement{Summary: observeSummary}})
}

// Provision implements Admin.
func (s *Server) Provision(ctx context.Context, wish Wish) (Outcome, error) {
	var outcome Outcome
	err := wish.Claim.Validate()
	if err != nil || wish.Claim.UID == "" {
		return outcome, errorf(KindFailed, err, "The claim of the resource can't be written.")
	}
	if err := refuseNames(wish); err != nil {
		return outcome, err
	}
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error { return s.provision(ctx, conn, &wish, &outcome) })
	return outcome, err
}

func (s *Server) provision(ctx context.Context, conn *pgx.Conn, wish *Wish, outcome *Outcome) error {
	var races int
	for round := 0; ; {
		have, err := s.observe(ctx, conn, wish.Name, wish.database())
		if err != nil {
			return err
		}
		changes, err := Plan(*wish, have)
		if err != nil || len(changes) == 0 {
			return err
		}
		if round == maxRounds {
			return noEffect(changes[0], wish.Name, have.Admin)
		}
		err = s.applyAll(ctx, conn, changes, have.Admin, wish, outcome)
		switch {
		case err == nil:
			round++
		case isRace(err) && races < maxRaces:
			races++
			if pause(ctx) != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (s *Server) applyAll(ctx context.Context, conn *pgx.Conn, changes []Change, admin AdminState, wish *Wish, outcome *Outcome) error {
	for _, change := range changes {
		if err := s.apply(ctx, conn, change, wish.Name, admin); err != nil {
			return err
		}
		outcome.add(change)
		switch c := change.(type) {
		case CreateRole:
			wish.SetPassword = false
		case AlterRole:
			wish.SetPassword = wish.SetPassword && c.Password == ""
		}
	}
	return nil
}

func (s *Server) apply(ctx context.Context, conn *pgx.Conn, change Change, name string, admin AdminState) error {
	switch c := change.(type) {
	case WriteClaim:
		return s.writeClaim(ctx, conn, c, admin)
	case DropDatabase:
		return s.dropDatabase(ctx, conn, drop{name: c.Name, admin: admin})
	}
	statements, err := change.statements()
	if err != nil {
		return err
	}
	return s.send(ctx, conn, failure{name: name, admin: admin}, statements...)
}

// writeClaim compares the comment and replaces it.
func (s *Server) writeClaim(ctx context.Context, conn *pgx.Conn, c WriteClaim, admin AdminState) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	statements, err := c.statements()
	if err != nil {
		return err
	}
	have, err := s.observe(ctx, conn, c.Name, c.Name)
	if err != nil {
		return err
	}
	if have.Role == nil || have.Role.Comment != c.From {
		return &Error{Kind: KindFailed, Message: "The role's claim changed meanwhile.", Err: errRace}
	}
	return s.send(ctx, conn, failure{name: c.Name, admin: admin}, statements...)
}

// rollback ends a failed transaction; where that fails too the pool closes the connection, since its transaction is
// still open.
func rollback(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}
