package fault

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// Injector is a Source that spoils the At-th call of all that pass through it, the first being 1.
type Injector struct {
	At     int
	Action Action
	// OnCall, where set, is told of each call before it is made.
	OnCall func(n int, name string)

	mu    sync.Mutex
	calls int
}

// Next implements Source.
func (i *Injector) Next(_ context.Context, name string) Fault {
	i.mu.Lock()
	i.calls++
	n := i.calls
	i.mu.Unlock()
	if i.OnCall != nil {
		i.OnCall(n, name)
	}
	if n != i.At {
		return Fault{}
	}
	return Fault{Action: i.Action}
}

// SQL is a postgres.Interceptor.
func (i *Injector) SQL(ctx context.Context, operation string, call func(context.Context) error) error {
	return Decorator{i}.Call(ctx, "SQL "+operation, call)
}

// HTTP decorates the transport to the API server. Only requests for one Database or one Secret count: lists, watches
// and events come when they like.
func (i *Injector) HTTP(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !counted(req) {
			return next.RoundTrip(req)
		}
		var response *http.Response
		err := Decorator{i}.Call(req.Context(), req.Method+" "+resource(req), func(context.Context) error {
			var err error
			response, err = next.RoundTrip(req) //nolint:bodyclose // the caller closes it, or the lines below
			return err
		})
		if err != nil && response != nil {
			_ = response.Body.Close()
			response = nil
		}
		return response, err
	})
}

func counted(req *http.Request) bool {
	return req.URL.Query().Get("watch") == "" && resource(req) != ""
}

// resource names the kind that a request for a single object is about, and its subresource; empty for others.
func resource(req *http.Request) string {
	segments := strings.Split(req.URL.Path, "/")
	for n, segment := range segments {
		if (segment == "secrets" || segment == "databases") && n+1 < len(segments) {
			if n+2 < len(segments) {
				return segment + "/" + segments[n+2]
			}
			return segment
		}
	}
	return ""
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
