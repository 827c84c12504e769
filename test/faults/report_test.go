//go:build linux

package faults

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "report.json")
	report := &Report{Seed: 7}
	for _, result := range []*Result{
		{Fault: "cut-off", Outage: 20_000, Recovery: 60_000, Written: 10, Polls: 5, OldPrimary: "db-0", NewPrimary: "db-1"},
		{Fault: "cut-off", Outage: 22_000, Recovery: 50_000, Written: 10, Polls: 5, OldPrimary: "db-1", NewPrimary: "db-1"},
		{Fault: "delete-pod", Outage: 1_000, Written: 5, Lost: 2, Double: 1, Violations: []string{"two rows are lost"}},
		{Fault: "cut-off", Outage: 21_000, Recovery: 70_000, Written: 10, Polls: 5, OldPrimary: "db-1", NewPrimary: "db-0"},
		{Fault: "cut-off", Outage: 300_000, Trouble: "it isn't as it should be"},
		{Fault: "kill-postgres", Outage: 1_000},
		{Fault: "kill-postgres", Outage: 4_000},
	} {
		if err := report.Add(result, file); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(report.Bad()); n != 2 {
		t.Errorf("%d rounds are bad, want 2", n)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var stored Report
	if err := json.Unmarshal(content, &stored); err != nil {
		t.Fatal(err)
	}
	want := []Summary{
		{Fault: "delete-pod", Rounds: 1, Bad: 1, Written: 5, Lost: 2, Double: 1, OutageMedian: 1_000, OutageMax: 1_000},
		{Fault: "kill-postgres", Rounds: 2, OutageMedian: 2_500, OutageMax: 4_000},
		{Fault: "cut-off", Rounds: 4, Bad: 1, Written: 30, Polls: 15, Moved: 2, OutageMedian: 21_000, OutageMax: 22_000, RecoveryMedian: 60_000, RecoveryMax: 70_000},
	}
	if stored.Seed != 7 || len(stored.Rounds) != 7 || !slices.Equal(stored.Summary, want) {
		t.Errorf("stored is %s", content)
	}
	if table := report.Table(); !strings.Contains(table, "| cut-off | 4 | 30 | 0 | 15 | 0 | 21.0 (22.0) | 60.0 (70.0) | 2 |\n") {
		t.Errorf("the table is\n%s", table)
	}
}

func TestNamed(t *testing.T) {
	if all, err := Named(""); err != nil || len(all) != len(All()) {
		t.Errorf("no name: %d faults, %v", len(all), err)
	}
	if two, err := Named("cut-api, kill-patroni"); err != nil || len(two) != 2 || two[1].Name != "kill-patroni" {
		t.Errorf("two names: %v, %v", two, err)
	}
	if _, err := Named("cut-api,earthquake"); err == nil || !strings.Contains(err.Error(), "earthquake") || !strings.Contains(err.Error(), "cut-api") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestPollsEnough(t *testing.T) {
	for _, test := range []struct {
		sentence string
		seen     Sightings
		bad      bool
	}{
		{"a poll that failed between two that didn't is noted only", Sightings{Polls: 9, Failed: 1, Blind: 300 * time.Millisecond}, false},
		{"no poll at all", Sightings{Failed: 2, Blind: time.Second}, true},
		{"too long without one", Sightings{Polls: 900, Blind: 4 * time.Second}, true},
	} {
		result := &Result{}
		checkPolls(test.seen, result)
		if result.Bad() != test.bad || result.Failed != test.seen.Failed || result.Blind != test.seen.Blind.Milliseconds() {
			t.Errorf("%s: %+v", test.sentence, result)
		}
	}
}

// TestBlind: the longest time without a look has those that failed in it, also at the end.
func TestBlind(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	p := &Poller{last: began}
	for _, look := range []struct {
		at  time.Duration
		err error
	}{{time.Second, nil}, {3 * time.Second, errors.New("no answer")}, {6 * time.Second, nil}, {60 * time.Second, nil}} {
		p.note(began.Add(look.at), nil, look.err)
		if look.at == 6*time.Second {
			if s := p.seen; s.Blind != 5*time.Second || s.Failed != 1 || s.Polls != 2 {
				t.Errorf("seen: %+v", s)
			}
			if blind := p.Seen().Blind; blind < 53*time.Second {
				t.Errorf("without a look for %s at its end", blind)
			}
		}
	}
	if blind := p.Seen().Blind; blind != 54*time.Second {
		t.Errorf("the longest time is %s", blind)
	}
}

func TestStays(t *testing.T) {
	for _, test := range []struct {
		sentence string
		pods     [][]string
		bad      bool
	}{
		{"nobody for a while is no other primary", [][]string{{"db-0"}, {}, {"db-0"}}, false},
		{"another one for a moment is", [][]string{{"db-0"}, {"db-0", "db-1"}, {"db-0"}}, true},
	} {
		result, seen := &Result{OldPrimary: "db-0"}, Sightings{}
		for _, pods := range test.pods {
			seen.Changes = append(seen.Changes, Sighting{Pods: pods})
		}
		if checkStays(seen, result); result.Bad() != test.bad {
			t.Errorf("%s: %v", test.sentence, result.Violations)
		}
	}
}
