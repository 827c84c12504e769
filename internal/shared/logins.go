package shared

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres"
)

// loginSchedule knows when each Database's login is to be checked next. It is kept in memory: after a restart the
// checks are spread over the interval anew.
type loginSchedule struct {
	mu   sync.Mutex
	next map[types.NamespacedName]time.Time
}

// due reports whether the login is to be checked now, and if so notes the next time.
func (s *loginSchedule) due(key types.NamespacedName, interval time.Duration) bool {
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

func (s *loginSchedule) remove(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.next, key)
}

// passwordDrifted reports that the server refuses the Secret's password. A check that fails otherwise decides
// nothing.
func (r *Reconciler) passwordDrifted(ctx context.Context, db *v1alpha1.Database, wish postgres.Wish) bool {
	ok, err := r.Admin.CheckLogin(ctx, db.Spec.Name, db.Spec.Name, wish.Password)
	return err == nil && !ok
}
