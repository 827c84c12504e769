package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Action is what happens to the call that is spoiled.
type Action string

const (
	// None spoils nothing; the calls are only counted.
	None Action = "none"
	// Before fails the call before it takes effect.
	Before Action = "before"
	// After lets the call take effect and then fails it, as a connection does that breaks before the answer.
	After Action = "after"
	// Kill lets the call take effect and ends the process with SIGKILL.
	Kill Action = "kill"
)

// Err is the error of a spoiled call.
var Err = errors.New("injected fault")

// Injector spoils the At-th call of all that pass through it, the first being 1.
type Injector struct {
	At     int
	Action Action
	// OnCall, where set, is told of each call before it is made.
	OnCall func(n int, name string)

	mu    sync.Mutex
	calls int
}

// SQL is a postgres.Interceptor.
func (i *Injector) SQL(ctx context.Context, operation string, call func(context.Context) error) error {
	return i.do("SQL "+operation, func() error { return call(ctx) })
}

// HTTP decorates the transport to the API server. Only requests for one Database or one Secret count: lists, watches
// and events come when they like.
func (i *Injector) HTTP(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !counted(req) {
			return next.RoundTrip(req)
		}
		var response *http.Response
		err := i.do(req.Method+" "+resource(req), func() error {
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

func (i *Injector) do(name string, call func() error) error {
	i.mu.Lock()
	i.calls++
	n := i.calls
	i.mu.Unlock()
	if i.OnCall != nil {
		i.OnCall(n, name)
	}
	if n != i.At || i.Action == None {
		return call()
	}
	if i.Action == Before {
		return fmt.Errorf("%w before %s", Err, name)
	}
	err := call()
	if i.Action == Kill {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
	return errors.Join(fmt.Errorf("%w after %s", Err, name), err)
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
