package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestReasonsAreExplained: every reason is a heading of docs/reasons.md, and every heading a reason.
func TestReasonsAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			headings[strings.TrimSpace(heading)] = true
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !headings[reason] {
			t.Errorf("docs/reasons.md has no heading %q", reason)
		}
		delete(headings, reason)
		return true
	})
	for heading := range headings {
		t.Errorf("docs/reasons.md has the heading %q, which is no reason", heading)
	}
}
