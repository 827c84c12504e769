package dedicated

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// looks remembers of each Database whose configuration was changed when its members had looked at it before, by their own
// clocks. It is kept in memory.
type looks struct {
	mu  sync.Mutex
	all map[types.UID]map[types.UID]int64
}

// begin says that the configuration was changed.
func (t *looks) begin(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[types.UID]map[types.UID]int64{}
	}
	t.all[uid] = map[types.UID]int64{}
}

// waiting reports that members may not have seen the change.
func (t *looks) waiting(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, waiting := t.all[uid]
	return waiting
}

// since is how many seconds of its own clock have passed between the first time that a member was asked and this one,
// when it says now.
func (t *looks) since(uid, pod types.UID, now int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, known := t.all[uid][pod]
	if !known && t.all[uid] != nil {
		t.all[uid][pod], first = now, now
	}
	return now - first
}

func (t *looks) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, uid)
}

// restarts remembers which members were asked to restart, or to look around, by Database, and until when each isn't asked
// again; a zero time is for ever. It is kept in memory: after a restart of this program each is asked at most once more.
type restarts struct {
	mu  sync.Mutex
	all map[types.UID]map[string]time.Time
}

func (r *restarts) asked(uid types.UID, key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, known := r.all[uid][key]
	return known && (until.IsZero() || now.Before(until))
}

// within reports that the time isn't over that was given when this was first asked.
func (r *restarts) within(uid types.UID, key string, now, until time.Time) bool {
	r.mu.Lock()
	_, known := r.all[uid][key]
	r.mu.Unlock()
	if !known {
		r.ask(uid, key, until)
	}
	return r.asked(uid, key, now)
}

func (r *restarts) ask(uid types.UID, key string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[types.UID]map[string]time.Time{}
	}
	if r.all[uid] == nil || len(r.all[uid]) > 100 {
		r.all[uid] = map[string]time.Time{}
	}
	r.all[uid][key] = until
}

// forget drops what is remembered of a Database that is gone.
func (r *Reconciler) forget(db types.UID) {
	r.restarts.forget(db)
	r.configured.forget(db)
	r.idle.update(db, nil, time.Time{})
	r.waiting.update(db, nil, time.Time{})
	r.leaderless.update(db, nil, time.Time{})
	r.alone.update(db, nil, time.Time{})
}

func (r *restarts) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, uid)
}
