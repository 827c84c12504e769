package main

import (
	"fmt"
	"strings"
)

// target is something measured beside what it is to be at most.
type target struct {
	Name string
	// Measured is to be at most Target, in Unit.
	Measured, Target float64
	Unit             string
}

func (t target) met() bool { return t.Measured <= t.Target }

// verdict says by how much a target is missed.
func (t target) verdict() string {
	switch {
	case t.met():
		return "met"
	case t.Target == 0:
		return fmt.Sprintf("missed by %.4g %s", t.Measured, t.Unit)
	}
	return fmt.Sprintf("missed by %.0f %%", 100*(t.Measured/t.Target-1))
}

// judge puts the targets of docs/performance.md beside the results.
func judge(r *results) []target {
	n := float64(r.Databases)
	targets := []target{
		{"one Database to Ready, to a bare creation just before", r.over(singleRatio), 2, "x"},
		{fmt.Sprintf("%d at once, to the best bare loop", r.Databases), r.over(manyRatio), 1.25, "x"},
		{fmt.Sprintf("deleting %d, to the best bare loop", r.Databases), r.over(deleteRatio), 1.25, "x"},
		{"round trips to PostgreSQL for one", r.over(func(r round) float64 { return r.Single.per(r.Single.Cost.SQL.RoundTrips) }), 6, ""},
		{"API writes for one", r.over(func(r round) float64 { return r.Single.per(r.Single.Cost.API.Writes) }), 3, ""},
		{"connections of the admin at once", r.over(func(r round) float64 { return float64(r.Many.Cost.SQL.Peak) }), 4, ""},
		{"statements for a look at one that is as it should be", float64(r.Idle.Cost.SQL.Statements) / float64(r.Idle.Looks), 1, ""},
		{"API writes in a resync", float64(r.Idle.Cost.API.Writes), 0, "writes"},
		{"statements for each after a restart", float64(r.Restart.Cost.SQL.Statements) / n, 1, ""},
		{"ALTERs after a restart", float64(alters(r.Restart.Cost.SQL)), 0, "ALTERs"},
		{"API writes after a restart", float64(r.Restart.Cost.API.Writes), 0, "writes"},
		{fmt.Sprintf("all %d looked at after a restart", r.Databases), r.Restart.Looked.Seconds(), 2, "s"},
	}
	if r.Many0().Cost.Memory.Peak > 0 {
		targets = append(targets,
			target{fmt.Sprintf("CPU for one creation, of %d", r.Databases), r.over(cpuForOne), 6, "ms"},
			target{fmt.Sprintf("memory with %d, peak", r.Databases), r.over(func(r round) float64 { return r.Many.Cost.Memory.Peak }), 40, "MB"})
	}
	return append(targets, judgeScale(r.Scale)...)
}

// Many0 is the first round's mass creation.
func (r *results) Many0() burst { return r.Rounds[0].Many }

// judgeScale has the targets for very many Databases, as far as these numbers were measured.
func judgeScale(s *scale) []target {
	if s == nil {
		return nil
	}
	memory := map[int]float64{1000: 50, 10000: 120}
	var targets []target
	for _, step := range s.Steps {
		n := step.Restart.N
		if most, ok := memory[n]; ok && step.Restart.Cost.Memory.Peak > 0 {
			targets = append(targets, target{fmt.Sprintf("memory with %d, peak after a restart", n), step.Restart.Cost.Memory.Peak, most, "MB"})
		}
		if n == 1000 {
			targets = append(targets, target{"all 1000 looked at after a restart", step.Restart.Looked.Seconds(), 5, "s"})
		}
	}
	last := s.Steps[len(s.Steps)-1].Restart.N
	return append(targets, target{
		fmt.Sprintf("one new Database while %d are looked at, p50, to alone", last),
		ratio(s.Beside.Timing.P50, s.Alone.Timing.P50), 1.5, "x",
	})
}

func singleRatio(r round) float64 { return r.Single.Ratio }
func manyRatio(r round) float64 {
	return ratio(r.Many.Timing.Total, r.best(creating).Create.Total)
}
func deleteRatio(r round) float64 {
	return ratio(r.Delete.Timing.Total, r.best(dropping).Drop.Total)
}

func cpuForOne(r round) float64 {
	return ms(r.Many.Cost.CPU[programName]) / float64(r.Many.Timing.N)
}

// per is a count for each of a burst's Databases.
func (b burst) per(count int) float64 { return float64(count) / float64(b.Timing.N) }

func ratio[T ~int64](a, b T) float64 { return float64(a) / float64(b) }

func alters(t traffic) int {
	var n int
	for kind, count := range t.Kinds {
		if strings.HasPrefix(kind, "ALTER ") {
			n += count
		}
	}
	return n
}
