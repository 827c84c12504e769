package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
)

// results are what the JSON file holds. Durations are in nanoseconds.
type results struct {
	// System is the operating system and processor, CPUs the number of them that the program may use.
	System     string
	CPUs       int
	PostgreSQL string
	Settings   string
	Databases  int
	Seconds    float64
	// Others is how many CPUs other programs kept busy on average, 0 where that can't be had.
	Others  float64
	Rounds  []round
	Restart restart
	Idle    idle
	Scale   *scale `json:",omitempty"`
	Targets []target
}

func newResults(o options, w *world) *results {
	return &results{
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		PostgreSQL: fmt.Sprint(w.main.Major()),
		Settings:   "fsync, synchronous_commit and full_page_writes on, max_connections 100; a weak admin; etcd without fsync",
		Databases:  o.databases,
	}
}

// save writes the results to the file, or a new temporary one, and returns its name.
func (r *results) save(name string) (string, error) {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	if name == "" {
		file, err := os.CreateTemp("", "databases-bench-*.json")
		if err != nil {
			return "", err
		}
		name = file.Name()
		if err := file.Close(); err != nil {
			return "", err
		}
	}
	return name, os.WriteFile(name, append(content, '\n'), 0o600)
}

// over is the median over the rounds of a value of each.
func (r *results) over(value func(round) float64) float64 {
	var values []float64
	for _, round := range r.Rounds {
		values = append(values, value(round))
	}
	return median(values)
}

// floor is a round's bare loop with that number of connections, if it was measured.
func (r round) floor(connections int) (floor, bool) {
	i := slices.IndexFunc(r.Floors, func(f floor) bool { return f.Connections == connections })
	if i < 0 {
		return floor{}, false
	}
	return r.Floors[i], true
}

// best is the shortest of a round's bare loops, by total time.
func (r round) best(of func(floor) timing) floor {
	best := r.Floors[0]
	for _, f := range r.Floors[1:] {
		if of(f).Total < of(best).Total {
			best = f
		}
	}
	return best
}

func creating(f floor) timing { return f.Create }
func dropping(f floor) timing { return f.Drop }
