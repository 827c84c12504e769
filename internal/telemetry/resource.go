package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// serviceName is service.name, unless the environment says another.
const serviceName = "databases"

func newResource(ctx context.Context, o Options) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{semconv.ServiceName(serviceName), semconv.ServiceVersion(o.Version)}
	if o.Pod != "" {
		attributes = append(attributes, semconv.ServiceInstanceID(o.Pod), semconv.K8SPodName(o.Pod))
	}
	if o.Namespace != "" {
		attributes = append(attributes, semconv.K8SNamespaceName(o.Namespace))
	}
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attributes...), resource.WithFromEnv()) // the last wins
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}
