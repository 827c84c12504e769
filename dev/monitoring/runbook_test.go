package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// headings are the headings of the second level in a document of docs.
func headings(t *testing.T, document string) []string {
	t.Helper()
	content, err := os.ReadFile("../../docs/" + document)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, match := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(content), -1) {
		all = append(all, match[1])
	}
	return all
}

func TestEachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	var names []string
	for _, rule := range alerts(t) {
		names = append(names, rule.Alert)
	}
	if have := headings(t, "alerts.md"); !slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(names))) {
		t.Errorf("docs/alerts.md has the headings %q, the alerts are %q", have, names)
	}
}

// TestLinksToDocsLead follows the links in the runbook, the alerts and the dashboard's texts to their headings.
func TestLinksToDocsLead(t *testing.T) {
	runbook, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	panels, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([a-z-]+\.md)?#([a-z]+)\)`).FindAllStringSubmatch(string(runbook), -1)
	links = append(links, regexp.MustCompile(`docs/([a-z-]+\.md)#([a-z]+)`).FindAllStringSubmatch(string(panels), -1)...)
	if len(links) < 10 {
		t.Fatalf("only %d links were found", len(links))
	}
	for _, l := range links {
		document := l[1]
		if document == "" {
			document = "alerts.md"
		}
		if !slices.ContainsFunc(headings(t, document), func(h string) bool { return strings.ToLower(h) == l[2] }) {
			t.Errorf("%s leads to no heading of docs/%s", l[0], document)
		}
	}
}

// TestReasonsThatWakeNobodyExist: a reason that was renamed would wake somebody.
func TestReasonsThatWakeNobodyExist(t *testing.T) {
	known := append(headings(t, "reasons.md"), headings(t, "server-reasons.md")...)
	for _, rule := range alerts(t) {
		for _, list := range regexp.MustCompile(`databases_ready_reason!~"([^"]+)"`).FindAllStringSubmatch(rule.Expr, -1) {
			for reason := range strings.SplitSeq(list[1], "|") {
				if !slices.Contains(known, reason) {
					t.Errorf("%s: no Database has the reason %s", rule.Alert, reason)
				}
			}
		}
	}
}
