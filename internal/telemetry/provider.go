package telemetry

import (
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// provider gives our tracer to libraries that ask for a provider, so that all spans have one scope.
type provider struct {
	embedded.TracerProvider
	tracer trace.Tracer
}

// Tracer implements trace.TracerProvider.
func (p provider) Tracer(string, ...trace.TracerOption) trace.Tracer { return p.tracer }
