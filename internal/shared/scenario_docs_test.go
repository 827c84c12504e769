package shared_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestScenarioTable: each row of the table of cases names a test that exists, and each test of a scenario has a row.
func TestScenarioTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/failure-scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, folder := range []string{".", "../fault", "../dedicated"} {
		files, err := filepath.Glob(folder + "/scenario*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "TestScenario") && f.Name.Name != t.Name() {
					tests[f.Name.Name] = false
				}
			}
		}
	}
	_, table, ok := strings.Cut(string(page), "\n## The cases\n")
	if !ok {
		t.Fatal("the page has no section \"The cases\"")
	}
	named := regexp.MustCompile("`(Test\\w+)` \\|$")
	rows := 0
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "| what") {
			continue
		}
		rows++
		match := named.FindStringSubmatch(line)
		if match == nil {
			t.Errorf("this row names no test: %s", line)
			continue
		}
		if _, ok := tests[match[1]]; !ok {
			t.Errorf("there is no %s, which a row names", match[1])
		}
		tests[match[1]] = true
	}
	for name, ok := range tests {
		if !ok {
			t.Errorf("%s has no row", name)
		}
	}
	if rows < len(tests) || len(tests) < 15 {
		t.Errorf("%d rows, %d tests", rows, len(tests))
	}
}
