package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/testenv"
)

func TestTelemetry(t *testing.T) {
	f := newFiles(t)
	const endpoint = "http://collector:4318"
	for what, c := range map[string]struct {
		env  map[string]string
		want settings.Telemetry
	}{
		"nothing is asked for": {nil, settings.Telemetry{}},
		"an endpoint for all": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint},
			settings.Telemetry{Traces: "http/protobuf", Metrics: "http/protobuf", Logs: "http/protobuf"}},
		"by gRPC, logs not": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_LOGS_EXPORTER": "none"},
			settings.Telemetry{Traces: "grpc", Metrics: "grpc"}},
		"one signal's endpoint and protocol": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
			settings.Telemetry{Traces: "grpc"}},
		"to the standard endpoint": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, settings.Telemetry{Traces: "http/protobuf"}},
		"metrics to be scraped": {map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0"},
			settings.Telemetry{Prometheus: "0.0.0.0:9464"}},
		"metrics both ways": {map[string]string{"OTEL_METRICS_EXPORTER": "otlp, prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "9000"},
			settings.Telemetry{Metrics: "http/protobuf", Prometheus: "localhost:9000"}},
		"headers from a file that ends its line": {map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x\n", "OTEL_TRACES_EXPORTER": "otlp"},
			settings.Telemetry{Traces: "http/protobuf"}},
		"all off": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SDK_DISABLED": "true"}, settings.Telemetry{}},
		"empty":   {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " ", "OTEL_TRACES_EXPORTER": ""}, settings.Telemetry{}},
	} {
		env := f.outside()
		for name, value := range c.env {
			env[name] = value
		}
		s, err := read(env)
		if err != nil || s.Telemetry != c.want {
			t.Errorf("%s: got %+v, %v\nwant %+v", what, s.Telemetry, err, c.want)
		}
	}
}

// TestBadTelemetry has every variable of OpenTelemetry's with a bad value, and the line that it leads to.
func TestBadTelemetry(t *testing.T) {
	f := newFiles(t)
	const number, millis = " must be a whole number from 1 to 1000000", " must be a whole number of milliseconds from 1 to 86400000"
	bad := map[string][2]string{
		"OTEL_SDK_DISABLED":                                        {"yes", " must be one of true, false"},
		"OTEL_TRACES_EXPORTER":                                     {"jaeger", " must be one of otlp, none"},
		"OTEL_LOGS_EXPORTER":                                       {"otlp,none", " must be one of otlp, none"},
		"OTEL_METRICS_EXPORTER":                                    {"otlp,none", " must be one or more of otlp, prometheus, none, with commas between; none only by itself"},
		"OTEL_RESOURCE_ATTRIBUTES":                                 {"hunter2", " must be NAME=VALUE, more of them with commas between, special characters percent-encoded"},
		"OTEL_TRACES_SAMPLER":                                      {"some", " must be one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio"},
		"OTEL_TRACES_SAMPLER_ARG":                                  {"0.5", " has a meaning only with the sampler traceidratio or parentbased_traceidratio"},
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE":        {"x", " must be one of cumulative, delta, lowmemory"},
		"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": {"x", " must be one of explicit_bucket_histogram, base2_exponential_bucket_histogram"},
		"OTEL_METRICS_EXEMPLAR_FILTER":                             {"ALWAYS_ON", " must be one of always_on, always_off, trace_based"},
		"OTEL_BSP_MAX_QUEUE_SIZE":                                  {"1000000000000", number},
		"OTEL_BLRP_MAX_QUEUE_SIZE":                                 {" 100", " must not begin or end with a space: OpenTelemetry takes the default then"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":                              {"GRPC", " must be one of grpc, http/protobuf"},
		"OTEL_EXPORTER_PROMETHEUS_HOST":                            {"a:b", " must be a host name or an IP address, without a port"},
		"OTEL_EXPORTER_PROMETHEUS_PORT":                            {"x", " must be a port from 1 to 65535"},
	}
	suffixes := map[string][2]string{
		"ENDPOINT": {"collector:4318", " must be a URL, as http://collector:4318 or https://collector:4318"},
		"PROTOCOL": {"http/json", " must be one of grpc, http/protobuf"}, "TIMEOUT": {"10s", millis}, "COMPRESSION": {"zip", " must be one of gzip, none"},
		"HEADERS":  {"hunter2", " must be NAME=VALUE, more of them with commas between, special characters percent-encoded"},
		"INSECURE": {"no", " must be one of true, false"}, "CERTIFICATE": {f.noPEM, " names a file without a PEM certificate"},
		"CLIENT_CERTIFICATE": {f.missing, " names a file that can't be read: no such file or directory"},
		"CLIENT_KEY":         {f.empty, " names a file that is empty"},
	}
	for _, name := range settings.OTelVariables() {
		c, known := bad[name]
		for suffix, one := range suffixes {
			if strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "_"+suffix) && !known {
				c, known = one, suffix != "CERTIFICATE" || !strings.HasSuffix(name, "CLIENT_CERTIFICATE")
			}
		}
		if !known { // the others are numbers
			c = [2]string{"0", number}
			if strings.HasSuffix(name, "_DELAY") || strings.HasSuffix(name, "_TIMEOUT") || strings.HasSuffix(name, "_INTERVAL") {
				c = [2]string{"9300000000000", millis}
			}
		}
		env := f.outside()
		env[name] = c[0]
		_, err := read(env)
		if err == nil || !strings.Contains("\n"+err.Error()+"\n", "\n"+name+c[1]+"\n") {
			t.Errorf("%s=%q:\n got %v\nwant %s%s", name, c[0], err, name, c[1])
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the message shows a secret: %v", name, err)
		}
	}
	env := f.outside()
	env["OTEL_EXPORTER_OTLP_CLIENT_KEY"], env["CONTROLLER_WORKERS"], env["OTEL_TRACES_SAMPLER"], env["OTEL_TRACES_SAMPLER_ARG"] = f.pem, "x", "traceidratio", "2"
	_, err := read(env)
	want := "CONTROLLER_WORKERS must be a whole number from 1 to 100\nOTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1\n" +
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY go together: set both or neither"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestClientKeyFits: a key that is another certificate's would be left out by the SDK without a word.
func TestClientKeyFits(t *testing.T) {
	f := newFiles(t)
	other := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(other, []byte(testenv.SelfSigned(t, 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	env := f.outside()
	env["OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"], env["OTEL_EXPORTER_OTLP_CLIENT_KEY"] = f.pem, f.pem
	if _, err := read(env); err != nil {
		t.Error(err)
	}
	env["OTEL_EXPORTER_OTLP_CLIENT_KEY"] = other
	want := "OTEL_EXPORTER_OTLP_CLIENT_KEY names a file that doesn't hold the private key of OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
	if _, err := read(env); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
