package telemetry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "../../docs/telemetry.md"

// metricRow is a row of the page's table of metrics: name, kind, unit, and name in Prometheus.
var metricRow = regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\| (gauge|histogram|counter), ([^|]+) \\|[^|]*\\| `([a-z_]+)` \\|")

// TestDocs: the page has each metric and each attribute of ours, under its name in Prometheus too, and no others.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	metrics, attributes := names(t)
	var documented []string
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		name, kind, unit, inPrometheus := row[1], row[2], row[3], row[4]
		documented = append(documented, name)
		want := strings.ReplaceAll(name, ".", "_")
		if unit == "s" {
			want += "_seconds"
		}
		if kind == "counter" {
			want += "_total"
		}
		if inPrometheus != want {
			t.Errorf("%s is %s in Prometheus and not %s", name, want, inPrometheus)
		}
	}
	slices.Sort(documented)
	if diff := cmp.Diff(metrics, documented); diff != "" {
		t.Errorf("metrics of the code (-) and of %s (+):\n%s", page, diff)
	}
	for _, word := range append(attributes, rootSpan, failedReconcile, serviceName, scope) {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("%s doesn't name %q", page, word)
		}
	}
}

// names are the metrics and the attributes in names.go, by their constants' names.
func names(t *testing.T) (metrics, attributes []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		ast.Inspect(spec.Values[0], func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok {
				if value, err := strconv.Unquote(literal.Value); err == nil {
					prefix := strings.TrimRightFunc(spec.Names[0].Name[:4], func(r rune) bool { return r < 'a' }) // name… or key…
					found[prefix] = append(found[prefix], value)
				}
			}
			return true
		})
		return true
	})
	for _, of := range []string{"name", "key"} {
		if len(found[of]) == 0 {
			t.Fatalf("no constant %s… in names.go; only %q", of, slices.Collect(maps.Keys(found)))
		}
	}
	slices.Sort(found["name"])
	return found["name"], found["key"]
}
