package manager

import (
	"net/http"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"

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

// isUp follows whether the server can be used; until something was asked of it, it is believed so.
func isUp(server *postgres.Server) *atomic.Bool {
	up := &atomic.Bool{}
	up.Store(true)
	server.Notify(func(down error) { up.Store(down == nil) })
	return up
}

// observe lets the telemetry count the Databases; up is nil without a shared server.
func observe(mgr ctrl.Manager, o Options, up *atomic.Bool) error {
	return o.Telemetry.Observe(telemetry.Gauges{Cache: mgr.GetCache(), Elected: mgr.Elected(), ServerUp: up})
}
