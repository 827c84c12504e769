package monitoring_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

const listFile = "../../deploy/monitoring/metrics.txt"

var update = flag.Bool("update", false, "write "+listFile)

func TestTheListHoldsWhatARunExports(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
	w := &world{T: t, Client: testenv.Get(t).Client(), namespace: testenv.Namespace(t, testenv.Get(t).Client()), server: server}
	p := start(t, w.namespace, server)
	w.sharedLife()
	w.dedicatedLife()
	checkValues(t, p)
	w.serverGoes()

	heading, want := readList(t)
	var have []string
	complete := func() bool {
		families, err := p.scrape(t.Context())
		if err != nil {
			t.Log(err)
			return false
		}
		have = list(families, want)
		return slices.Equal(have, want)
	}
	for deadline := time.Now().Add(patience / 2); !complete() && time.Now().Before(deadline); {
		time.Sleep(time.Second) // some come with the next look at something
	}
	if *update {
		if err := os.WriteFile(listFile, []byte(heading+strings.Join(have, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s isn't what the program exports; -update writes it, then see what asks for the old names (-list +run):\n%s", listFile, diff)
	}
	checkServerDown(t, p)
	checkSent(t, p, want)
}

// checkSent compares what comes by OTLP with the list too: Prometheus must have the same of both ways.
func checkSent(t *testing.T, p *program, want []string) {
	t.Helper()
	var have, faults []string
	for deadline := time.Now().Add(patience / 2); !slices.Equal(have, want) && time.Now().Before(deadline); time.Sleep(time.Second) {
		var families map[string]*dto.MetricFamily
		families, faults = p.otlp.received()
		have = list(families, want)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("what comes by OTLP isn't what %s has:\n%s", listFile, diff)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// checkValues checks the values that queries ask for by name.
func checkValues(t *testing.T, p *program) {
	t.Helper()
	for _, c := range []struct {
		metric, label string
		want          []string
	}{
		{"databases_count", "databases_ready", []string{"false", "true"}},
		{"databases_count", "databases_kind", []string{"dedicated", "shared"}},
		{"databases_unready_age_max_seconds", "databases_kind", []string{"dedicated", "shared"}},
		{"databases_unready_age_max_seconds", "databases_ready_reason", []string{"NameConflict", "PostgresUnavailable"}},
		{"databases_claims_refused_total", "databases_reason", []string{"NameConflict"}},
		{"controller_runtime_reconcile_total", "controller", []string{"database", "server", "server-roles"}},
		{"workqueue_depth", "controller", []string{"database", "server", "server-roles"}},
	} {
		var have []string
		eventually(t, fmt.Sprintf("%s has for %s %q", c.metric, c.label, c.want), func() bool {
			families, err := p.scrape(t.Context())
			if err != nil {
				return false
			}
			have = nil
			for _, metric := range families[c.metric].GetMetric() {
				for _, label := range metric.GetLabel() {
					if label.GetName() == c.label && !slices.Contains(have, label.GetValue()) {
						have = append(have, label.GetValue())
					}
				}
			}
			slices.Sort(have)
			return slices.Equal(have, c.want)
		})
	}
}

// checkServerDown is the one value on which the most urgent alert rests.
func checkServerDown(t *testing.T, p *program) {
	t.Helper()
	eventually(t, "databases_server_up is 0", func() bool {
		families, err := p.scrape(context.WithoutCancel(t.Context()))
		up := families["databases_server_up"]
		return err == nil && up != nil && up.GetMetric()[0].GetGauge().GetValue() == 0
	})
}

// readList is the heading of the list, and the list.
func readList(t *testing.T) (heading string, lines []string) {
	t.Helper()
	content, err := os.ReadFile(listFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			heading += line
			continue
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return heading, lines
}

// list is a line for each series name, with the labels that any of its series has. Of what libraries export, which is much
// and depends on the system, only what is wanted is in it.
func list(families map[string]*dto.MetricFamily, want []string) []string {
	var lines []string
	for name, family := range families {
		labels := map[string]bool{}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = true
			}
		}
		add := func(suffix string, more ...string) {
			own := strings.HasPrefix(name, "databases_") || strings.HasPrefix(name, "db_")
			if !own && !slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, name+suffix+"{") }) {
				return
			}
			all := append(slices.Collect(maps.Keys(labels)), more...)
			slices.Sort(all)
			lines = append(lines, fmt.Sprintf("%s%s{%s}", name, suffix, strings.Join(all, ",")))
		}
		if family.GetType() == dto.MetricType_HISTOGRAM {
			add("_bucket", "le")
			add("_count")
			add("_sum")
			continue
		}
		add("")
	}
	slices.Sort(lines)
	return lines
}
