//go:build linux

package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Report is what came of many rounds.
type Report struct {
	Seed       uint64    `json:"seed"`
	Durability string    `json:"durability"`
	Parallel   int       `json:"parallel"`
	Began      time.Time `json:"began"`
	Ended      time.Time `json:"ended"`
	Summary    []Summary `json:"summary"`
	Rounds     []*Result `json:"rounds"`

	mu sync.Mutex
}

// Summary is what came of all rounds with one fault. Times are in milliseconds. A round in trouble counts with the time without
// writes that was seen, where the fault was done, and has no time of recovery.
type Summary struct {
	Fault          string `json:"fault"`
	Rounds         int    `json:"rounds"`
	Bad            int    `json:"bad"`
	NotRecovered   int    `json:"notRecovered"` // rounds in trouble
	Written        int    `json:"written"`      // only rows that were compared
	Lost           int    `json:"lost"`
	Polls          int    `json:"polls"`
	Double         int    `json:"pollsWithTwo"`
	Moved          int    `json:"moved"` // rounds after which another pod was the primary
	OutageMedian   int64  `json:"outageMedianMs"`
	OutageMax      int64  `json:"outageMaxMs"`
	Target         int64  `json:"targetMs"`
	OverTarget     int    `json:"overTarget"`
	UnreadyMedian  int64  `json:"withoutPrimaryMedianMs"`
	UnreadyMax     int64  `json:"withoutPrimaryMaxMs"`
	RecoveryMedian int64  `json:"recoveryMedianMs"`
	RecoveryMax    int64  `json:"recoveryMaxMs"`
}

// Add takes a round in and writes the report so far to a file: a long run may be ended from outside.
func (r *Report) Add(result *Result, file string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Rounds = append(r.Rounds, result)
	r.Ended = time.Now()
	r.Summary = summarize(r.Rounds)
	if file == "" {
		return nil
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Bad are the rounds that need to be looked into.
func (r *Report) Bad() []*Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.Rounds), func(result *Result) bool { return !result.Bad() })
}

func summarize(rounds []*Result) (all []Summary) {
	by := map[string][]*Result{}
	for _, result := range rounds {
		by[result.Fault] = append(by[result.Fault], result)
	}
	for _, name := range inOrder(by) {
		s := Summary{Fault: name}
		var outages, unready, recoveries []int64
		for _, result := range by[name] {
			s.Rounds++
			s.Target = result.Target
			if result.Compared {
				s.Written += result.Written
			}
			s.Lost += result.Lost
			s.Polls += result.Polls
			s.Double += result.Double
			if result.Bad() {
				s.Bad++
			}
			if !result.Injected.IsZero() {
				outages, unready = append(outages, result.Outage), append(unready, result.Unready)
				if result.OverTarget() {
					s.OverTarget++
				}
			}
			if result.Trouble != "" {
				s.NotRecovered++
				continue
			}
			if result.NewPrimary != result.OldPrimary {
				s.Moved++
			}
			recoveries = append(recoveries, result.Recovery)
		}
		s.OutageMedian, s.OutageMax = medianAndMax(outages)
		s.UnreadyMedian, s.UnreadyMax = medianAndMax(unready)
		s.RecoveryMedian, s.RecoveryMax = medianAndMax(recoveries)
		all = append(all, s)
	}
	return all
}

// inOrder are the names of faults in the order of All, and then those that it doesn't know any more.
func inOrder(by map[string][]*Result) []string {
	names := slices.Sorted(maps.Keys(by))
	var ordered []string
	for _, fault := range All() {
		if at := slices.Index(names, fault.Name); at >= 0 {
			ordered, names = append(ordered, fault.Name), slices.Delete(names, at, at+1)
		}
	}
	return append(ordered, names...)
}

func medianAndMax(values []int64) (median, most int64) {
	if len(values) == 0 {
		return 0, 0
	}
	values = slices.Sorted(slices.Values(values))
	last := len(values) - 1
	return (values[last/2] + values[len(values)/2]) / 2, values[last]
}

// Table is the summary in Markdown.
func (r *Report) Table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	b.WriteString("| fault | rounds | not recovered | rows acknowledged | lost | polls | with two primaries | without writes, s: median (most) | target, s | over target " +
		"| without a ready primary, s: median (most) | until all replicas stream, s: median (most) | primary moved |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range r.Summary {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %.1f (%.1f) | %.0f | %d | %.1f (%.1f) | %.1f (%.1f) | %d |\n",
			s.Fault, s.Rounds, s.NotRecovered, s.Written, s.Lost, s.Polls, s.Double,
			seconds(s.OutageMedian), seconds(s.OutageMax), seconds(s.Target), s.OverTarget,
			seconds(s.UnreadyMedian), seconds(s.UnreadyMax), seconds(s.RecoveryMedian), seconds(s.RecoveryMax), s.Moved)
	}
	return b.String()
}

func seconds(milliseconds int64) float64 { return float64(milliseconds) / 1000 }

// Line tells a round in a line.
func (r *Result) Line() string {
	verdict := "ok"
	if r.Bad() {
		verdict = "BAD"
	}
	over := ""
	if r.OverTarget() {
		over = fmt.Sprintf(" (over the target of %.0f s)", seconds(r.Target))
	}
	lost := fmt.Sprintf("lost %d of %d", r.Lost, r.Written)
	if !r.Compared {
		lost = fmt.Sprintf("%d rows not compared", r.Written)
	}
	recovered := fmt.Sprintf("all replicas after %.1f s", seconds(r.Recovery))
	if r.Trouble != "" {
		recovered = "not recovered"
	}
	return fmt.Sprintf("%-4s %-16s %s: %s, two primaries in %d of %d polls, %.1f s without writes%s, %.1f s without a ready primary, %s, %s -> %s, errors %v",
		verdict, r.Fault, r.Database, lost, r.Double, r.Polls, seconds(r.Outage), over, seconds(r.Unready), recovered, r.OldPrimary, r.NewPrimary, r.Errors)
}
