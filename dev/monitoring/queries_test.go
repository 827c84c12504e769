package main

import (
	"bufio"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const metricsFile = "../../deploy/monitoring/metrics.txt"

// targetLabels are what Prometheus itself adds to each series of the program. namespace and cluster are there where the
// scrape or the sender adds them; rules group by them and hold without them.
var targetLabels = []string{"job", "instance", "namespace", "cluster"}

// foreign are the metrics that others export, which no run of the program shows.
var foreign = map[string][]string{
	// The kubelet's; a claim's own namespace.
	"kubelet_volume_stats_available_bytes": {"persistentvolumeclaim"},
	"kubelet_volume_stats_capacity_bytes":  {"persistentvolumeclaim"},
	"kubelet_volume_stats_used_bytes":      {"persistentvolumeclaim"},
	// kube-state-metrics'; of the program's own namespace.
	"kube_deployment_status_replicas_unavailable": {"deployment"},
	// Prometheus's own.
	"ALERTS": {"alertname", "alertstate"},
}

// exported reads which labels each metric has.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.Open(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	line := regexp.MustCompile(`^([a-z_]+)\{([a-z_,]*)\}$`)
	metrics := map[string][]string{}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		if strings.HasPrefix(scanner.Text(), "#") {
			continue
		}
		parts := line.FindStringSubmatch(scanner.Text())
		if parts == nil {
			t.Fatalf("%s: %q isn't name{label,label}", metricsFile, scanner.Text())
		}
		metrics[parts[1]] = strings.Split(parts[2], ",")
	}
	return metrics
}

// allQueries are the expressions of alerts and panels by where they stand, with what Grafana puts into them.
func allQueries(t *testing.T) map[string]query {
	t.Helper()
	all := map[string]query{}
	for _, rule := range alerts(t) {
		legend := ""
		for _, text := range rule.Annotations {
			legend += strings.ReplaceAll(text, "{{ $labels.", "{{")
		}
		all["alert "+rule.Alert] = query{rule.Expr, legend}
	}
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$job", "databases", "$kind", ".*")
	for _, r := range rows() {
		for _, p := range r.panels {
			if p.kind == trace {
				continue
			}
			for i, q := range p.queries {
				all["panel "+p.title+" "+string(rune('A'+i))] = query{grafana.Replace(q.expr), q.legend}
			}
		}
	}
	return all
}

func TestQueriesAskForWhatIsExported(t *testing.T) {
	metrics := exported(t)
	maps.Copy(metrics, foreign)
	legendLabel := regexp.MustCompile(`\{\{ ?(\w+)`)
	for where, q := range allQueries(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.expr)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		known := unknownIn(t, where, expr, metrics)
		for _, match := range legendLabel.FindAllStringSubmatch(q.legend, -1) {
			if !slices.Contains(known, match[1]) {
				t.Errorf("%s: its text has {{%s}}, which none of its metrics has", where, match[1])
			}
		}
	}
}

// TestCasesAreOfWhatIsExported: an alert that is tested with labels which no run has isn't tested.
func TestCasesAreOfWhatIsExported(t *testing.T) {
	metrics := exported(t)
	maps.Copy(metrics, foreign)
	for _, c := range testCases(t) {
		for _, s := range c.Input {
			series, err := parser.NewParser(parser.Options{}).ParseMetric(s.Series)
			if err != nil {
				t.Fatalf("%q: %v", c.Name, err)
			}
			known := append(slices.Clone(targetLabels), metrics[series.Get("__name__")]...)
			series.Range(func(l labels.Label) {
				if l.Name != "__name__" && !slices.Contains(known, l.Name) {
					t.Errorf("%q: nobody exports %s with %s", c.Name, s.Series, l.Name)
				}
			})
		}
	}
}

// unknownIn reports metrics and labels that nobody exports, and returns the labels that the expression may have.
func unknownIn(t *testing.T, where string, expr parser.Expr, metrics map[string][]string) []string {
	t.Helper()
	known := slices.Clone(targetLabels)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		own, ok := metrics[selector.Name]
		if !ok {
			t.Errorf("%s: nobody exports %s", where, selector.Name)
			return nil
		}
		known = append(known, own...)
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != "__name__" && !slices.Contains(append(slices.Clone(targetLabels), own...), matcher.Name) {
				t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var grouping []string
		switch node := node.(type) {
		case *parser.AggregateExpr:
			grouping = node.Grouping
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				grouping = append(slices.Clone(node.VectorMatching.MatchingLabels), node.VectorMatching.Include...)
			}
		}
		for _, label := range grouping {
			if !slices.Contains(known, label) {
				t.Errorf("%s: groups by %s, which none of its metrics has", where, label)
			}
		}
		return nil
	})
	return known
}

// TestMetricsAreAskedFor finds metrics that are listed, or even exported, for nobody.
func TestMetricsAreAskedFor(t *testing.T) {
	var text strings.Builder
	for _, q := range allQueries(t) {
		text.WriteString(q.expr + "\n")
	}
	for metric := range exported(t) {
		histogram, _ := strings.CutSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_sum"), "_count"), "_bucket")
		if !strings.Contains(text.String(), metric+"{") && !strings.Contains(text.String(), histogram+"_bucket{") {
			t.Errorf("neither an alert nor a panel asks for %s", metric)
		}
	}
}

// TestEveryAlertKeepsInstallationsApart lets one Prometheus watch several clusters.
func TestEveryAlertKeepsInstallationsApart(t *testing.T) {
	for _, rule := range alerts(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if a, ok := node.(*parser.AggregateExpr); ok && (!slices.Contains(a.Grouping, "cluster") || !slices.Contains(a.Grouping, "namespace")) {
				t.Errorf("%s adds up across clusters or namespaces: %s", rule.Alert, a)
			}
			return nil
		})
	}
}
