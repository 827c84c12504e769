package manager

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/telemetry"
)

// instrument puts the telemetry outermost around both seams, so that it sees what the other decorators make of a call.
func instrument(o Options) Options {
	o.SQL = postgres.Chain(o.Telemetry.SQL(), o.SQL)
	switch outer, inner := o.Telemetry.HTTP(), o.HTTP; {
	case outer == nil:
	case inner == nil:
		o.HTTP = outer
	default:
		o.HTTP = func(next http.RoundTripper) http.RoundTripper { return outer(inner(next)) }
	}
	return o
}

// pingInterval is how often the server is asked for an answer where telemetry tells whether it is up: with few Databases
// nobody else may ask for minutes.
const pingInterval = 30 * time.Second

// watchServer follows whether the shared server can be used, where the telemetry wants to know it; nil otherwise.
func watchServer(mgr ctrl.Manager, o Options, server *postgres.Server) (*atomic.Bool, error) {
	if o.Telemetry.Controller(telemetry.KindShared) == nil {
		return nil, nil
	}
	up := &atomic.Bool{}
	up.Store(true)
	server.Notify(func(down error) { up.Store(down == nil) })
	return up, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { // by the leader only
		for {
			limited, cancel := context.WithTimeout(ctx, pingInterval)
			_ = server.Ping(limited) // a failure reaches the function above
			cancel()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pingInterval):
			}
		}
	}))
}

// observe lets the telemetry count the Databases; up is nil without a shared server.
func observe(mgr ctrl.Manager, o Options, up *atomic.Bool) error {
	return o.Telemetry.Observe(telemetry.Gauges{Cache: mgr.GetCache(), Elected: mgr.Elected(), ServerUp: up})
}
