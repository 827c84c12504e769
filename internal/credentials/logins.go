package credentials

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LoginSchedule knows when each Database's login is to be checked next. It is kept in memory: after a restart the
// checks are spread over the interval anew.
type LoginSchedule struct {
	mu   sync.Mutex
	next map[types.NamespacedName]time.Time
}

// Due reports whether the login is to be checked now, and if so notes the next time.
func (s *LoginSchedule) Due(key types.NamespacedName, interval time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next, known := s.next[key]
	switch {
	case s.next == nil:
		s.next = map[types.NamespacedName]time.Time{}
		fallthrough
	case !known:
		s.next[key] = now.Add(rand.N(interval))
		return false
	case now.Before(next):
		return false
	}
	s.next[key] = now.Add(interval)
	return true
}

// Remove forgets a Database that is gone.
func (s *LoginSchedule) Remove(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.next, key)
}
