package shared

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Waiting has the Databases that wait for the server. They don't back off each by itself: the server's breaker finds
// out that it is back, and Wake puts all of them into the queue.
type Waiting struct {
	mu     sync.Mutex
	parked map[reconcile.Request]struct{}
	wakes  int
	add    func(reconcile.Request)
}

// NewWaiting makes an empty one.
func NewWaiting() *Waiting { return &Waiting{parked: map[reconcile.Request]struct{}{}} }

// Wake lets every waiting Database go on.
func (w *Waiting) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes++
	if w.add == nil {
		return
	}
	for req := range w.parked {
		w.add(req)
	}
	clear(w.parked)
}

// start is the source through which they come into the controller's queue.
func (w *Waiting) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add = queue.Add
	return nil
}

// epoch counts the wakes; a reconcile notes it when it begins.
func (w *Waiting) epoch() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wakes
}

// park notes that the Database waits. It is false where the server came back since the epoch, so that nobody would
// wake it.
func (w *Waiting) park(req reconcile.Request, epoch int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wakes != epoch {
		return false
	}
	w.parked[req] = struct{}{}
	return true
}

func (w *Waiting) remove(req reconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.parked, req)
}
