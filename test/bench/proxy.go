package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// traffic is what went through a proxy.
type traffic struct {
	// Statements are the simple queries (each client here sends one statement in one) and executions of prepared
	// statements; RoundTrips are the client's waits for an answer, logins not counted.
	Statements, RoundTrips int
	// Kinds counts the statements by their first words.
	Kinds map[string]int
	// Connections were opened; Peak is how many were open at once.
	Connections, Peak int
	// Waited is the sum of the times that round trips took.
	Waited time.Duration
}

// minus is the traffic after an earlier snapshot. The peak isn't a sum: it stays.
func (t traffic) minus(earlier traffic) traffic {
	kinds := map[string]int{}
	for kind, n := range t.Kinds {
		if n > earlier.Kinds[kind] {
			kinds[kind] = n - earlier.Kinds[kind]
		}
	}
	return traffic{
		Statements:  t.Statements - earlier.Statements,
		RoundTrips:  t.RoundTrips - earlier.RoundTrips,
		Kinds:       kinds,
		Connections: t.Connections - earlier.Connections,
		Peak:        t.Peak,
		Waited:      t.Waited - earlier.Waited,
	}
}

// proxy carries connections to a PostgreSQL server and counts what passes. A byte is passed on before it is looked at.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	now   traffic
	open  map[net.Conn]struct{}
	names map[string]time.Time // when each first parameter was first bound since reset
	binds int
}

func newProxy(ctx context.Context, target string) (*proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target, open: map[net.Conn]struct{}{}, names: map[string]time.Time{}}
	p.now.Kinds = map[string]int{}
	go p.accept()
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// close ends all connections.
func (p *proxy) close() error {
	err := p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		err = errors.Join(err, conn.Close())
	}
	return err
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		go p.serve(client)
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.open[client] = struct{}{}
	p.now.Connections++
	p.now.Peak = max(p.now.Peak, len(p.open))
	p.mu.Unlock()
	s := &session{proxy: p, statements: map[string]string{}}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.readServer(io.TeeReader(server, client))
		_, _ = io.Copy(client, server) // what could not be decoded still passes
		_ = client.Close()
	}()
	s.readClient(io.TeeReader(client, server))
	_, _ = io.Copy(server, client)
	_ = server.Close()
	<-answered
	p.mu.Lock()
	delete(p.open, client)
	p.mu.Unlock()
}

// reset forgets which names were bound, and makes the peak of connections those open now.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.names)
	p.now.Peak = len(p.open)
}

// snapshot is the traffic so far.
func (p *proxy) snapshot() traffic {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now
	now.Kinds = maps.Clone(now.Kinds)
	return now
}

// bound counts the names that were bound as a prepared statement's first parameter since reset, and says when the last
// of them was new.
func (p *proxy) bound(prefix string) (n int, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, at := range p.names {
		if strings.HasPrefix(name, prefix) {
			n++
			if at.After(last) {
				last = at
			}
		}
	}
	return n, last
}

// session decodes one connection.
type session struct {
	proxy      *proxy
	statements map[string]string // SQL by the name it was prepared under
	bound      string            // SQL of the last Bind

	mu       sync.Mutex
	sent     []time.Time // of the round trips that wait for their answer
	early    int         // answers that came before their question was decoded
	loggedIn bool
}

func (s *session) readClient(r io.Reader) {
	backend := pgproto3.NewBackend(r, io.Discard)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	if err := backend.SetAuthType(pgproto3.AuthTypeSASL); err != nil {
		return
	}
	for {
		message, err := backend.Receive()
		if err != nil {
			return
		}
		if _, ok := message.(*pgproto3.SASLInitialResponse); ok {
			if err := backend.SetAuthType(pgproto3.AuthTypeSASLContinue); err != nil {
				return
			}
		}
		s.count(message)
	}
}

func (s *session) count(message pgproto3.FrontendMessage) {
	switch m := message.(type) {
	case *pgproto3.Parse:
		s.statements[m.Name] = m.Query
	case *pgproto3.Bind:
		s.bound = s.statements[m.PreparedStatement]
		if m.PreparedStatement != "" && len(m.Parameters) > 0 {
			s.proxy.look(string(m.Parameters[0]))
		}
	case *pgproto3.Execute:
		s.proxy.statement(s.bound)
	case *pgproto3.Query:
		s.proxy.statement(m.String)
		s.trip()
	case *pgproto3.Sync:
		s.trip()
	}
}

func (s *session) trip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early > 0 {
		s.early--
		s.proxy.trip(0)
		return
	}
	s.sent = append(s.sent, time.Now())
}

func (s *session) readServer(r io.Reader) {
	frontend := pgproto3.NewFrontend(r, io.Discard)
	for {
		message, err := frontend.Receive()
		if err != nil {
			return
		}
		if _, ok := message.(*pgproto3.ReadyForQuery); ok {
			s.answered()
		}
	}
}

// answered ends a round trip. The server is ready a first time after the login, which isn't one.
func (s *session) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.loggedIn:
		s.loggedIn = true
	case len(s.sent) == 0:
		s.early++
	default:
		s.proxy.trip(time.Since(s.sent[0]))
		s.sent = s.sent[1:]
	}
}

func (p *proxy) trip(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.RoundTrips++
	p.now.Waited += took
}

func (p *proxy) look(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.names[name]; !known {
		p.names[name] = time.Now()
	}
	p.binds++
}

func (p *proxy) statement(sql string) {
	words := strings.Fields(sql)
	n := 2
	if len(words) > 0 && slices.Contains([]string{"SELECT", "GRANT", "REVOKE"}, words[0]) {
		n = 1 // the next word is a name or a privilege
	}
	kind := strings.Join(words[:min(len(words), n)], " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Statements++
	p.now.Kinds[kind]++
}

// looks is how often a name was bound so far.
func (p *proxy) looks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.binds
}
