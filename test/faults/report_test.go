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

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "report.json")
	report, began := &Report{Seed: 7}, time.Now()
	for _, result := range []*Result{
		{Fault: "cut-off", Injected: began, Compared: true, Target: 25_000, Outage: 20_000, Unready: 18_000, Recovery: 60_000, Written: 10, Polls: 5, OldPrimary: "db-0", NewPrimary: "db-1"},
		{Fault: "cut-off", Injected: began, Compared: true, Target: 25_000, Outage: 25_000, Unready: 16_000, Recovery: 50_000, Written: 10, Polls: 5, OldPrimary: "db-1", NewPrimary: "db-1"},
		{Fault: "delete-pod", Injected: began, Compared: true, Target: 6_000, Outage: 1_000, Written: 5, Lost: 2, Double: 1, Violations: []string{"two rows are lost"}},
		{Fault: "cut-off", Injected: began, Compared: true, Target: 25_000, Outage: 21_000, Unready: 19_000, Recovery: 70_000, Written: 10, Polls: 5, OldPrimary: "db-1", NewPrimary: "db-0"},
		{Fault: "cut-off", Injected: began, Target: 25_000, Outage: 300_000, Unready: 17_000, Written: 40, Trouble: "it isn't as it should be, and the rows weren't compared"},
		{Fault: "cut-off", Compared: true, Target: 25_000, Outage: 40, Written: 3, Trouble: "the fault couldn't be done"},
		{Fault: "kill-postgres", Injected: began, Compared: true, Outage: 1_000},
		{Fault: "kill-postgres", Injected: began, Compared: true, Outage: 4_000},
	} {
		if err := report.Add(result, file); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(report.Bad()); n != 3 {
		t.Errorf("%d rounds are bad, want 3", n)
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
		{Fault: "delete-pod", Rounds: 1, Bad: 1, Written: 5, Lost: 2, Double: 1, OutageMedian: 1_000, OutageMax: 1_000, Target: 6_000},
		{Fault: "kill-postgres", Rounds: 2, OutageMedian: 2_500, OutageMax: 4_000},
		{
			Fault: "cut-off", Rounds: 5, Bad: 2, NotRecovered: 2, Written: 33, Polls: 15, Moved: 2, OutageMedian: 23_000, OutageMax: 300_000, Target: 25_000, OverTarget: 1,
			UnreadyMedian: 17_500, UnreadyMax: 19_000, RecoveryMedian: 60_000, RecoveryMax: 70_000,
		},
	}
	if diff := cmp.Diff(want, stored.Summary); stored.Seed != 7 || len(stored.Rounds) != 8 || diff != "" {
		t.Errorf("stored is %s\n%s", content, diff)
	}
	table := strings.Split(report.Table(), "\n")
	if row := "| cut-off | 5 | 2 | 33 | 0 | 15 | 0 | 23.0 (300.0) | 25 | 1 | 17.5 (19.0) | 60.0 (70.0) | 2 |"; !slices.Contains(table, row) {
		t.Errorf("the table is\n%s", strings.Join(table, "\n"))
	}
	for _, row := range table[1 : len(table)-1] {
		if strings.Count(row, "|") != strings.Count(table[0], "|") {
			t.Errorf("%q has other columns than %q", row, table[0])
		}
	}
}

func TestLine(t *testing.T) {
	for _, test := range []struct {
		sentence string
		result   Result
		want     string
		never    string
	}{
		{"a time at the target is within it", Result{Compared: true, Target: 6_000, Outage: 6_000}, "lost 0 of 0", "target"},
		{"a longer one is told, and isn't bad", Result{Compared: true, Target: 6_000, Outage: 6_001}, "6.0 s without writes (over the target of 6 s)", "BAD"},
		{"without a target nothing is over it", Result{Compared: true, Outage: 60_000}, "60.0 s without writes", "target"},
		{"rows that weren't compared aren't called safe", Result{Written: 7, Trouble: "no answer"}, "7 rows not compared", "lost"},
		{"a round in trouble has no time of recovery", Result{Trouble: "no answer"}, "not recovered", "all replicas after"},
		{"the time without a primary is told", Result{Compared: true, Unready: 1_200}, "1.2 s without a ready primary", "BAD"},
	} {
		if line := test.result.Line(); !strings.Contains(line, test.want) || strings.Contains(line, test.never) {
			t.Errorf("%s: %q", test.sentence, line)
		}
	}
}

// TestFaults: each fault has a target, and says of the primary one thing at most.
func TestFaults(t *testing.T) {
	for _, f := range All() {
		if f.Target == 0 || f.Stays && f.Moves {
			t.Errorf("%s: the target %s, stays %t, moves %t", f.Name, f.Target, f.Stays, f.Moves)
		}
		if f.Ends && f.Hold < pastProbe {
			t.Errorf("%s is made good after %s, before the liveness probe has failed often enough", f.Name, f.Hold)
		}
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

// TestBlind: the longest time without a look has those that failed in it, also at the end, and none in which nothing changed.
func TestBlind(t *testing.T) {
	noAnswer := errors.New("no answer")
	version := func(uid types.UID, of string) endpoints { return endpoints{versions: map[types.UID]string{uid: of}} }
	type look struct {
		at    int // in seconds
		found endpoints
		err   error
	}
	for _, test := range []struct {
		sentence string
		looks    []look
		want     int
	}{
		{"one that failed is none", []look{{1, version("a", "1"), nil}, {3, endpoints{}, noAnswer}, {6, version("a", "2"), nil}}, 5},
		{"the longest of several", []look{{1, version("a", "1"), nil}, {55, version("a", "2"), nil}, {58, version("a", "3"), nil}}, 54},
		{"nothing changed", []look{{1, version("a", "1"), nil}, {3, endpoints{}, noAnswer}, {50, version("a", "1"), nil}, {52, version("a", "2"), nil}}, 2},
		{"it was made again", []look{{1, version("a", "1"), nil}, {50, version("b", "1"), nil}}, 49},
		{"nobody knows what was before the first look", []look{{40, version("a", "1"), nil}}, 40},
		{"what is nowhere may have come and gone", []look{{1, version("a", "1"), nil}, {2, endpoints{}, nil}, {50, endpoints{}, nil}}, 48},
	} {
		began := time.Now().Add(-time.Minute)
		p := &Poller{last: began}
		failed := 0
		for _, l := range test.looks {
			p.note(began.Add(time.Duration(l.at)*time.Second), l.found, l.err)
			if l.err != nil {
				failed++
			}
		}
		if s := p.seen; s.Blind != time.Duration(test.want)*time.Second || s.Failed != failed || s.Polls != len(test.looks)-failed {
			t.Errorf("%s: %+v, want %d s", test.sentence, s, test.want)
		}
		last := time.Duration(60-test.looks[len(test.looks)-1].at) * time.Second
		if blind := p.Seen().Blind; blind < last {
			t.Errorf("%s: %s, and there was no look for %s at the end", test.sentence, blind, last)
		}
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
		if checkStays(seen, nil, result); result.Bad() != test.bad {
			t.Errorf("%s: %v", test.sentence, result.Violations)
		}
	}
}

func TestMoves(t *testing.T) {
	for _, test := range []struct {
		sentence string
		now      string
		bad      bool
	}{
		{"another member is the primary", "db-1", false},
		{"the old one is it again", "db-0", true},
	} {
		result := &Result{OldPrimary: "db-0", NewPrimary: test.now}
		if checkMoves(result); result.Bad() != test.bad {
			t.Errorf("%s: %v", test.sentence, result.Violations)
		}
	}
}
