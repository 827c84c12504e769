package settings

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The protocols by which telemetry can be sent.
const (
	ProtocolGRPC = "grpc"
	ProtocolHTTP = "http/protobuf"
)

// Telemetry says what is exported. The zero value exports nothing.
type Telemetry struct {
	// Traces, Metrics and Logs are the protocols by which each signal is sent over OTLP; empty where it isn't.
	Traces, Metrics, Logs string
	// Prometheus is the address at which metrics are served to be scraped; empty for none.
	Prometheus string
}

const (
	otlp       = "otlp"
	prometheus = "prometheus"
	none       = "none"
)

// telemetry reads OpenTelemetry's own variables. Its SDK reads them too, but replaces a wrong one by its default and
// says so where nobody looks, so that all of them are checked here.
func (r *reader) telemetry() Telemetry {
	for _, v := range otelVariables() {
		value := r.otel(v.name)
		if value == "" {
			continue
		}
		if err := v.check(value); err != nil {
			r.fault(v.name, err.Error())
		} else if raw, _ := r.lookup(v.name); raw != value && v.isNumber() {
			r.fault(v.name, "must not begin or end with a space: OpenTelemetry takes the default then")
		}
	}
	r.clientKeys()
	r.samplerArgument()
	if strings.EqualFold(r.otel("OTEL_SDK_DISABLED"), "true") {
		return Telemetry{}
	}
	var t Telemetry
	t.Traces, _ = r.signal("TRACES")
	t.Logs, _ = r.signal("LOGS")
	metrics, exporters := r.signal("METRICS")
	t.Metrics = metrics
	if slices.Contains(exporters, prometheus) {
		t.Prometheus = net.JoinHostPort(cmp.Or(r.otel("OTEL_EXPORTER_PROMETHEUS_HOST"), "localhost"), cmp.Or(r.otel("OTEL_EXPORTER_PROMETHEUS_PORT"), "9464"))
	}
	return t
}

// signal says by which protocol a signal is sent, empty for none, and names its exporters.
func (r *reader) signal(name string) (protocol string, exporters []string) {
	exporters = words(r.otel("OTEL_" + name + "_EXPORTER"))
	if len(exporters) == 0 && cmp.Or(r.otel("OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT"), r.otel("OTEL_EXPORTER_OTLP_ENDPOINT")) != "" {
		exporters = []string{otlp}
	}
	if !slices.Contains(exporters, otlp) {
		return "", exporters
	}
	protocol = cmp.Or(r.otel("OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL"), r.otel("OTEL_EXPORTER_OTLP_PROTOCOL"))
	return cmp.Or(protocol, ProtocolHTTP), exporters
}

// otel is a variable's value as OpenTelemetry reads it: one that is empty is unset.
func (r *reader) otel(name string) string {
	value, _ := r.lookup(name)
	return strings.TrimSpace(value)
}

// clientKeys: a client's certificate is nothing without its key, and the SDK would leave it out silently.
func (r *reader) clientKeys() {
	for _, signal := range otlpSignals {
		certificate, key := otlpVariable(signal, "CLIENT_CERTIFICATE"), otlpVariable(signal, "CLIENT_KEY")
		if (r.otel(certificate) == "") != (r.otel(key) == "") {
			r.fault(certificate, "and "+key+" go together: set both or neither")
		} else if r.otel(key) != "" && certificateFile(r.otel(certificate)) == nil && nonEmptyFile(r.otel(key)) == nil {
			if _, err := tls.LoadX509KeyPair(r.otel(certificate), r.otel(key)); err != nil {
				r.fault(key, "names a file that doesn't hold the private key of "+certificate)
			}
		}
	}
}

func (r *reader) samplerArgument() {
	if r.otel("OTEL_TRACES_SAMPLER_ARG") != "" && !strings.HasSuffix(strings.ToLower(r.otel("OTEL_TRACES_SAMPLER")), "traceidratio") {
		r.fault("OTEL_TRACES_SAMPLER_ARG", "has a meaning only with the sampler traceidratio or parentbased_traceidratio")
	}
}

type otelVariable struct {
	name  string
	check func(string) error
}

// isNumber reports that the SDK parses the value as a number, spaces and all; it trims the others.
func (v otelVariable) isNumber() bool {
	for _, part := range []string{"OTEL_BSP_", "OTEL_BLRP_", "OTEL_METRIC_EXPORT_", "_LIMIT"} {
		if strings.Contains(v.name, part) {
			return true
		}
	}
	return false
}

// otlpSignals are the infixes of OTEL_EXPORTER_OTLP_*: all signals, or one.
var otlpSignals = []string{"", "TRACES_", "METRICS_", "LOGS_"}

func otlpVariable(signal, name string) string { return "OTEL_EXPORTER_OTLP_" + signal + name }

// otelVariables are OpenTelemetry's variables that can be wrong.
func otelVariables() []otelVariable {
	all := []otelVariable{
		{"OTEL_SDK_DISABLED", word("true", "false")},
		{"OTEL_TRACES_EXPORTER", word(otlp, none)},
		{"OTEL_METRICS_EXPORTER", list(otlp, prometheus, none)},
		{"OTEL_LOGS_EXPORTER", word(otlp, none)},
		{"OTEL_RESOURCE_ATTRIBUTES", pairs},
		{"OTEL_TRACES_SAMPLER", word("always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")},
		{"OTEL_TRACES_SAMPLER_ARG", ratio},
		{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", word("cumulative", "delta", "lowmemory")},
		{"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", word("explicit_bucket_histogram", "base2_exponential_bucket_histogram")},
		{"OTEL_EXPORTER_PROMETHEUS_HOST", host},
		{"OTEL_EXPORTER_PROMETHEUS_PORT", port},
		{"OTEL_METRICS_EXEMPLAR_FILTER", exactly("always_on", "always_off", "trace_based")},
		{"OTEL_METRIC_EXPORT_INTERVAL", milliseconds},
		{"OTEL_METRIC_EXPORT_TIMEOUT", milliseconds},
	}
	for _, processor := range []string{"OTEL_BSP_", "OTEL_BLRP_"} {
		for _, name := range []string{"SCHEDULE_DELAY", "EXPORT_TIMEOUT"} {
			all = append(all, otelVariable{processor + name, milliseconds})
		}
		for _, name := range []string{"MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"} {
			all = append(all, otelVariable{processor + name, count})
		}
	}
	for _, limit := range []string{
		"ATTRIBUTE_VALUE_LENGTH", "ATTRIBUTE_COUNT", "SPAN_ATTRIBUTE_VALUE_LENGTH", "SPAN_ATTRIBUTE_COUNT", "SPAN_EVENT_COUNT", "SPAN_LINK_COUNT",
		"EVENT_ATTRIBUTE_COUNT", "LINK_ATTRIBUTE_COUNT", "LOGRECORD_ATTRIBUTE_VALUE_LENGTH", "LOGRECORD_ATTRIBUTE_COUNT",
	} {
		all = append(all, otelVariable{"OTEL_" + limit + "_LIMIT", count})
	}
	for _, signal := range otlpSignals {
		all = append(all,
			otelVariable{otlpVariable(signal, "ENDPOINT"), collector},
			otelVariable{otlpVariable(signal, "PROTOCOL"), exactly(ProtocolGRPC, ProtocolHTTP)},
			otelVariable{otlpVariable(signal, "TIMEOUT"), milliseconds},
			otelVariable{otlpVariable(signal, "COMPRESSION"), exactly("gzip", none)},
			otelVariable{otlpVariable(signal, "HEADERS"), pairs},
			otelVariable{otlpVariable(signal, "INSECURE"), word("true", "false")},
			otelVariable{otlpVariable(signal, "CERTIFICATE"), certificateFile},
			otelVariable{otlpVariable(signal, "CLIENT_CERTIFICATE"), certificateFile},
			otelVariable{otlpVariable(signal, "CLIENT_KEY"), nonEmptyFile},
		)
	}
	return all
}

func describeTelemetry(w io.Writer) {
	fmt.Fprint(w, `
OpenTelemetry's OTEL_* variables say where telemetry goes; nothing is exported unless one of them asks for it:
  OTEL_EXPORTER_OTLP_ENDPOINT      collector's URL, as http://collector:4318: traces, metrics and logs go there
  OTEL_EXPORTER_OTLP_PROTOCOL      grpc or http/protobuf (http/protobuf)
  OTEL_TRACES_EXPORTER, OTEL_LOGS_EXPORTER
                                   otlp or none
  OTEL_METRICS_EXPORTER            otlp, prometheus, both with a comma between, or none
  OTEL_EXPORTER_PROMETHEUS_HOST, OTEL_EXPORTER_PROMETHEUS_PORT
                                   where /metrics is served to be scraped (localhost, 9464)
  OTEL_SDK_DISABLED                true: export nothing
and as OpenTelemetry documents them: other OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
OTEL_TRACES_SAMPLER, OTEL_METRIC_EXPORT_*, OTEL_BSP_*, OTEL_BLRP_* and limits.
`)
}

func word(allowed ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(allowed, strings.ToLower(s)) {
			return errors.New("must be one of " + strings.Join(allowed, ", "))
		}
		return nil
	}
}

func list(allowed ...string) func(string) error {
	return func(s string) error {
		all := words(s)
		for _, one := range all {
			if !slices.Contains(allowed, one) || one == none && len(all) > 1 {
				return errors.New("must be one or more of " + strings.Join(allowed, ", ") + ", with commas between; none only by itself")
			}
		}
		return nil
	}
}

func words(s string) []string {
	var all []string
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.ToLower(strings.TrimSpace(one)); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// exactly is for words that OpenTelemetry knows in this case only.
func exactly(allowed ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(allowed, s) {
			return errors.New("must be one of " + strings.Join(allowed, ", "))
		}
		return nil
	}
}

// The limits are far above what makes sense, and below what the SDK takes memory for at once, or overflows at.
const (
	maxCount        = 1_000_000
	maxMilliseconds = 24 * 60 * 60 * 1000
)

func count(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > maxCount {
		return fmt.Errorf("must be a whole number from 1 to %d", maxCount)
	}
	return nil
}

func milliseconds(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > maxMilliseconds {
		return fmt.Errorf("must be a whole number of milliseconds from 1 to %d", maxMilliseconds)
	}
	return nil
}

func ratio(s string) error {
	if f, err := strconv.ParseFloat(s, 64); err != nil || !(f >= 0 && f <= 1) {
		return errors.New("must be a number from 0 to 1")
	}
	return nil
}

func collector(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() != "" && port(u.Port()) != nil {
		return errors.New("must be a URL, as http://collector:4318 or https://collector:4318")
	}
	return nil
}

func pairs(s string) error {
	for pair := range strings.SplitSeq(s, ",") {
		name, value, found := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); err != nil || !found || strings.TrimSpace(name) == "" {
			return errors.New("must be NAME=VALUE, more of them with commas between, special characters percent-encoded")
		}
	}
	return nil
}

// OTelVariables names the variables of OpenTelemetry's that are checked.
func OTelVariables() []string {
	var names []string
	for _, v := range otelVariables() {
		names = append(names, v.name)
	}
	return names
}
