package telemetry

import (
	"context"
	"net/http"
	"net/url"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// rootSpan is the name of every reconcile's span, whatever the kind: saved queries know it.
const rootSpan = "reconcile Database"

// Reconciler puts a span around each reconcile. Records that it logs, and the library's record of its error, name it.
func (c *Controller) Reconciler(next reconcile.Reconciler) reconcile.Reconciler {
	if c == nil || c.tracer == nil {
		return next
	}
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		ctx, span := c.tracer.Start(ctx, rootSpan, trace.WithNewRoot(), trace.WithAttributes(
			semconv.K8SNamespaceName(req.Namespace), keyObject.String(req.Name), c.kind))
		ended := false
		defer func() {
			if !ended { // the library recovers and logs
				span.SetStatus(codes.Error, "panic")
			}
			span.End()
		}()
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("span", span.SpanContext()))
		result, err := next.Reconcile(ctx, req)
		ended = true
		if err != nil {
			span.SetStatus(codes.Error, oneLine(err.Error()))
			err = &spanError{err, span.SpanContext()}
		}
		return result, err
	})
}

// HTTP puts a span around each request that a reconcile makes; nil where there are no traces. Requests of nobody's
// reconcile (watches, leases, events) have none, and no request carries its span to the server: the API server takes no
// notice of it.
func (t *Telemetry) HTTP() func(http.RoundTripper) http.RoundTripper {
	if t == nil || t.tracer == nil {
		return nil
	}
	return func(next http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(withoutQuery{next},
			otelhttp.WithTracerProvider(provider{tracer: t.tracer}), otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
			otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()),
			otelhttp.WithFilter(func(r *http.Request) bool { return trace.SpanFromContext(r.Context()).IsRecording() }),
			otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }))
	}
}

// Transport is HTTP for one transport.
func (c *Controller) Transport(next http.RoundTripper) http.RoundTripper {
	if c == nil || c.tracer == nil {
		return next
	}
	return c.HTTP()(next)
}

// withoutQuery replaces the URL in the request's span by one without its query, which a library can't be told to leave
// out.
type withoutQuery struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w withoutQuery) RoundTrip(r *http.Request) (*http.Response, error) {
	u := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path}
	trace.SpanFromContext(r.Context()).SetAttributes(semconv.URLFull(u.String()))
	return w.next.RoundTrip(r)
}

// WrappedRoundTripper lets the API's libraries find the transport below.
func (w withoutQuery) WrappedRoundTripper() http.RoundTripper { return w.next }

// failed marks a span.
func failed(span trace.Span, err error, kind string, more ...attribute.KeyValue) {
	span.SetStatus(codes.Error, oneLine(err.Error()))
	span.SetAttributes(append(more, semconv.ErrorTypeKey.String(kind))...)
}
