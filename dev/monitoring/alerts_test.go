package main

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const (
	alertsFile = "../../deploy/monitoring/alerts.yaml"
	casesGlob  = "rules/*_test.yaml"
)

// alerts are the rules as Prometheus itself reads them.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", alertsFile)
	}
	return all
}

func TestEachAlertSaysWhatAPersonNeeds(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range alerts(t) {
		if rule.Alert == "" || seen[rule.Alert] || !strings.HasPrefix(rule.Alert, "Databases") {
			t.Errorf("rule %q: want an alert with a name of its own that begins with Databases", rule.Alert)
		}
		seen[rule.Alert] = true
		if severity := rule.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s: severity %q", rule.Alert, severity)
		}
		for _, key := range []string{"summary", "description"} {
			if text := rule.Annotations[key]; text == "" || strings.Contains(text, "\n") {
				t.Errorf("%s: %s is %q; want one line", rule.Alert, key, text)
			}
		}
		if got, want := rule.Annotations["runbook_url"], repository+"docs/alerts.md#"+strings.ToLower(rule.Alert); got != want {
			t.Errorf("%s: runbook_url is %q, want %q", rule.Alert, got, want)
		}
	}
}

// testCase is one group of promtool's unit tests.
type testCase struct {
	Name  string `yaml:"name"`
	Input []struct {
		Series string `yaml:"series"`
	} `yaml:"input_series"`
	Checks []struct {
		Alert string `yaml:"alertname"`
		At    string `yaml:"eval_time"`
		Want  []any  `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

func testCases(t *testing.T) []testCase {
	t.Helper()
	files, err := filepath.Glob(casesGlob)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", casesGlob, files, err)
	}
	var all []testCase
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var parsed struct {
			Tests []testCase `yaml:"tests"`
		}
		if err := yaml.Unmarshal(content, &parsed); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, parsed.Tests...)
	}
	return all
}

func TestEachAlertFiresStaysQuietAndEnds(t *testing.T) {
	fires, quiet, ends := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range testCases(t) {
		fired := map[string]bool{}
		last := time.Duration(0)
		for _, check := range c.Checks {
			at, err := model.ParseDuration(check.At)
			if err != nil || time.Duration(at) <= last {
				t.Fatalf("%q: eval_time %q: want rising times (%v)", c.Name, check.At, err)
			}
			last = time.Duration(at)
			switch {
			case len(check.Want) > 0:
				fired[check.Alert], fires[check.Alert] = true, true
			case fired[check.Alert]:
				ends[check.Alert] = true
			default:
				quiet[check.Alert] = true
			}
		}
	}
	for _, rule := range alerts(t) {
		for what, have := range map[string]map[string]bool{"fires": fires, "doesn't fire": quiet, "has ended": ends} {
			if !have[rule.Alert] {
				t.Errorf("%s has no case in %s in which it %s", rule.Alert, casesGlob, what)
			}
		}
	}
}

func TestRules(t *testing.T) {
	promtool := buildPromtool(t)
	t.Run("hold", func(t *testing.T) {
		if output, err := promtool("check", "rules", "--lint=all", "--lint-fatal", alertsFile); err != nil {
			t.Errorf("promtool check rules: %v\n%s", err, output)
		}
		files, _ := filepath.Glob(casesGlob)
		if output, err := promtool(append([]string{"test", "rules"}, files...)...); err != nil {
			t.Errorf("promtool test rules: %v\n%s", err, output)
		}
	})
	// All rules are spoiled in the same way, and the cases of each must notice.
	for name, spoil := range map[string]func(*rulefmt.Rule){
		"never fire":        func(r *rulefmt.Rule) { r.Expr = "vector(0) > 1" },
		"always fire":       func(r *rulefmt.Rule) { r.Expr, r.For = "vector(1)", 0 },
		"fire at once":      func(r *rulefmt.Rule) { r.For = 0 },
		"fire far too late": func(r *rulefmt.Rule) { r.For = model.Duration(24 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			rules := alerts(t)
			spoiled := map[string]bool{}
			for i := range rules {
				before := rules[i].For
				spoil(&rules[i])
				spoiled[rules[i].Alert] = name != "fire at once" || before > 0
			}
			output := testSpoiled(t, promtool, rules)
			for _, rule := range rules {
				if spoiled[rule.Alert] && !regexp.MustCompile(`alertname: `+rule.Alert+`\b`).MatchString(output) {
					t.Errorf("no case of %s fails", rule.Alert)
				}
			}
		})
	}
}

// testSpoiled runs the cases on other rules, and returns promtool's report.
func testSpoiled(t *testing.T, promtool func(...string) (string, error), rules []rulefmt.Rule) string {
	t.Helper()
	folder := t.TempDir()
	content, err := yaml.Marshal(rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{{Name: "spoiled", Rules: rules}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "alerts.yaml"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(casesGlob)
	arguments := []string{"test", "rules"}
	for _, file := range files {
		cases, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(folder, filepath.Base(file))
		moved := strings.Replace(string(cases), "rule_files: [../"+alertsFile+"]", "rule_files: [alerts.yaml]", 1)
		if moved == string(cases) {
			t.Fatalf("%s doesn't name the rules as expected", file)
		}
		if err := os.WriteFile(copied, []byte(moved), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, copied)
	}
	output, err := promtool(arguments...)
	if err == nil {
		t.Fatal("all cases pass")
	}
	return output
}

// buildPromtool builds promtool, of the version in go.mod, and returns a function that runs it. What finds targets in
// clouds is left out: it would double the time that the first build takes.
func buildPromtool(t *testing.T) func(...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "promtool")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags=remove_all_sd", "-o", file, "github.com/prometheus/prometheus/cmd/promtool")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build promtool: %v\n%s", err, output)
	}
	return func(arguments ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		output, err := exec.CommandContext(ctx, file, arguments...).CombinedOutput()
		return string(output), err
	}
}
