package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestReasonsAreExplained: every reason is a heading of its kind's page, and every heading a reason.
func TestReasonsAreExplained(t *testing.T) {
	for folder, file := range map[string]string{"postgres/v1alpha1": "reasons.md", "database/v1": "server-reasons.md"} {
		t.Run(folder, func(t *testing.T) {
			page, err := os.ReadFile("../docs/" + file)
			if err != nil {
				t.Fatal(err)
			}
			headings := map[string]bool{}
			for line := range strings.Lines(string(page)) {
				if heading, ok := strings.CutPrefix(line, "## "); ok {
					headings[strings.TrimSpace(heading)] = true
				}
			}
			for _, reason := range reasons(t, folder+"/conditions.go") {
				if !headings[reason] {
					t.Errorf("docs/%s has no heading %q", file, reason)
				}
				delete(headings, reason)
			}
			for heading := range headings {
				t.Errorf("docs/%s has the heading %q, which is no reason", file, heading)
			}
		})
	}
}

// reasons are the values of the constants Reason... of a file.
func reasons(t *testing.T, name string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, reason)
		return true
	})
	return all
}
