package dedicated

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// times remembers a time for each Database, in memory.
type times struct {
	mu  sync.Mutex
	all map[types.UID]time.Time
}

func (t *times) set(uid types.UID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[types.UID]time.Time{}
	}
	t.all[uid] = at
}

func (t *times) get(uid types.UID) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, known := t.all[uid]
	return at, known
}

func (t *times) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, uid)
}

// restarts remembers which members were asked to restart, by Database. It is kept in memory: after a restart of this
// program each is asked at most once more.
type restarts struct {
	mu  sync.Mutex
	all map[types.UID]map[string]bool
}

func (r *restarts) asked(uid types.UID, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[uid][key]
}

func (r *restarts) ask(uid types.UID, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[types.UID]map[string]bool{}
	}
	if r.all[uid] == nil || len(r.all[uid]) > 100 {
		r.all[uid] = map[string]bool{}
	}
	r.all[uid][key] = true
}

// forget drops what is remembered of a Database that is gone.
func (r *Reconciler) forget(db types.UID) {
	r.restarts.forget(db)
	r.configured.forget(db)
	r.idle.update(db, nil, time.Time{})
	r.waiting.update(db, nil, time.Time{})
}

func (r *restarts) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, uid)
}
