package dedicated

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/example/databases/internal/postgres"
)

const (
	// maxPools is how many servers have connections open at once, unless more are asked at the same time.
	maxPools = 100
	// poolIdle is how long the connections of a server stay open that nobody asks. It is well below the time between two
	// looks: with thousands of servers, connections that wait for the next look would cost more than new ones.
	poolIdle = time.Minute
	// poolForgotten is how long the password of a server is kept that nobody asks.
	poolForgotten = 24 * time.Hour
)

// route is where a pool's connections lead. Another pod of the same name, as after a restart, is another place.
type route struct {
	server, pod types.UID
	ip          string
}

// pools are the servers' pools. They hold connections, and the goroutine that tries to reach a server which doesn't
// answer, only while somebody asks.
type pools struct {
	mu    sync.Mutex
	known map[types.NamespacedName]*pool
	// open are those with connections; at most most, but for those in use.
	open map[*pool]struct{}
	most int
}

func newPools(most int) pools {
	return pools{known: map[types.NamespacedName]*pool{}, open: map[*pool]struct{}{}, most: most}
}

// pool is the Admin of one server through one pod.
type pool struct {
	pools    *pools
	at       route
	password string
	connect  func() (server, error)

	// What follows is guarded by the mutex of pools.

	version string // of the superuser's Secret
	admin   server // nil while there are no connections
	calls   int    // in flight
	used    time.Time
	retired bool // replaced: it closes with its last call
}

var _ postgres.Admin = (*pool)(nil)

// find is the pool that leads there with the password of that version, nil for none.
func (s *pools) find(key types.NamespacedName, at route, version string) *pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.known[key]; p != nil && p.at == at && p.version == version {
		p.used = time.Now()
		return p
	}
	return nil
}

// put gives the pool that leads there with that password: the one there is, or a new one in its place.
func (s *pools) put(key types.NamespacedName, at route, version, password string, connect func() (server, error)) *pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.known[key]; p != nil && p.at == at && p.password == password {
		p.version, p.used = version, time.Now()
		return p
	}
	s.retire(key)
	p := &pool{pools: s, at: at, version: version, password: password, connect: connect, used: time.Now()}
	s.known[key] = p
	return p
}

// remove forgets a server that is gone.
func (s *pools) remove(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retire(key)
}

// retire takes the pool out; s.mu is held.
func (s *pools) retire(key types.NamespacedName) {
	p := s.known[key]
	if p == nil {
		return
	}
	delete(s.known, key)
	p.retired = true
	if p.calls == 0 {
		s.shut(p)
	}
}

// shut ends a pool's connections; s.mu is held. To end them may take as long as the network.
func (s *pools) shut(p *pool) {
	if p.admin == nil {
		return
	}
	go p.admin.Close()
	p.admin = nil
	delete(s.open, p)
}

// trim closes those that were used the longest time ago, where too many are open; s.mu is held.
func (s *pools) trim() {
	for len(s.open) > s.most {
		var oldest *pool
		for p := range s.open {
			if p.calls == 0 && (oldest == nil || p.used.Before(oldest.used)) {
				oldest = p
			}
		}
		if oldest == nil {
			return
		}
		s.shut(oldest)
	}
}

// sweep closes and forgets what nobody has asked for long.
func (s *pools) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.known {
		switch idle := now.Sub(p.used); {
		case p.calls > 0 || idle < poolIdle:
		case idle < poolForgotten:
			s.shut(p)
		default:
			s.retire(key)
		}
	}
}

// Start implements manager.Runnable: it closes connections that nobody uses, until ctx ends.
func (s *Servers) Start(ctx context.Context) error {
	tick := time.NewTicker(poolIdle / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s.pools.sweep(now)
		}
	}
}

// Close ends all connections, waiting for calls in flight.
func (s *Servers) Close() {
	s.pools.mu.Lock()
	var all []server
	for p := range s.pools.open {
		all = append(all, p.admin)
		p.admin = nil
	}
	clear(s.pools.open)
	clear(s.pools.known)
	s.pools.mu.Unlock()
	for _, admin := range all {
		admin.Close()
	}
}

// with makes a call, over connections that are opened where there are none.
func (p *pool) with(call func(server) error) error {
	admin, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end()
	return call(admin)
}

func (p *pool) begin() (server, error) {
	s := p.pools
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.admin == nil {
		admin, err := p.connect()
		if err != nil {
			return nil, err
		}
		p.admin = admin
		s.open[p] = struct{}{}
	}
	p.calls++
	s.trim()
	return p.admin, nil
}

func (p *pool) end() {
	s := p.pools
	s.mu.Lock()
	defer s.mu.Unlock()
	p.calls--
	p.used = time.Now()
	if p.retired && p.calls == 0 {
		s.shut(p)
	}
	s.trim()
}

// Provision implements postgres.Admin.
func (p *pool) Provision(ctx context.Context, wish postgres.Wish) (outcome postgres.Outcome, err error) {
	err = p.with(func(admin server) error {
		outcome, err = admin.Provision(ctx, wish)
		return err
	})
	return outcome, err
}

// Drop implements postgres.Admin.
func (p *pool) Drop(ctx context.Context, name string, claim postgres.Claim) error {
	return p.with(func(admin server) error { return admin.Drop(ctx, name, claim) })
}

// CheckLogin implements postgres.Admin.
func (p *pool) CheckLogin(ctx context.Context, role, database, password string) (ok bool, err error) {
	ok = true // false only where the server said so
	err = p.with(func(admin server) error {
		ok, err = admin.CheckLogin(ctx, role, database, password)
		return err
	})
	return ok, err
}
