package shared_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// requests counts what the controller asks of the API server, but for its watches, its events and other managers.
type requests struct {
	mu   sync.Mutex
	seen []string
	// secretWatches are the lists and watches of Secrets, with what they ask for.
	secretWatches []string
	before        func(*http.Request) error // may refuse a request
	after         func(*http.Request)
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		counted := req.URL.Query().Get("watch") == "" && req.URL.Query().Get("limit") == "" && !strings.Contains(req.URL.Path, "/events")
		r.mu.Lock()
		if strings.HasSuffix(req.URL.Path, "/secrets") {
			r.secretWatches = append(r.secretWatches, req.Header.Get("Accept")+" "+req.URL.Query().Get("labelSelector"))
		}
		if counted {
			r.seen = append(r.seen, req.Method+" "+req.URL.Path)
		}
		before, after := r.before, r.after
		r.mu.Unlock()
		if before != nil {
			if err := before(req); err != nil {
				return nil, err
			}
		}
		response, err := next.RoundTrip(req)
		if after != nil {
			after(req)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *requests) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func (r *requests) take() (reads, writes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, request := range r.seen {
		if strings.HasPrefix(request, "GET ") {
			reads = append(reads, request)
		} else {
			writes = append(writes, request)
		}
	}
	r.seen = nil
	return reads, writes
}

func (r *requests) intercept(before func(*http.Request) error, after func(*http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.after = before, after
}

// trips counts the round trips to PostgreSQL.
type trips struct {
	mu   sync.Mutex
	seen []string
	all  int
}

func (r *trips) intercept(ctx context.Context, operation string, call func(context.Context) error) error {
	r.mu.Lock()
	r.seen = append(r.seen, operation)
	r.all++
	r.mu.Unlock()
	return call(ctx)
}

func (r *trips) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

func (r *trips) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}
