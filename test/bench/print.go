package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// print writes the tables, in Markdown, so that they can be put into a document.
func (r *results) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %d CPUs; PostgreSQL %s: %s.\n", r.System, r.CPUs, r.PostgreSQL, r.Settings)
	fmt.Fprintf(w, "%d round(s) of %d databases; medians over the rounds; %.0f s in all; other programs kept %.1f CPUs busy.\n",
		len(r.Rounds), r.Databases, r.Seconds, r.Others)
	if r.Many0().Cost.Memory.Peak == 0 {
		fmt.Fprintln(w, "CPU time and memory are measured on Linux only.")
	}
	r.printFloors(w)
	r.printProgram(w)
	r.printWork(w)
	r.printTargets(w)
	fmt.Fprintln(w)
}

func (r *results) printFloors(w io.Writer) {
	t := newTable(w, "the bare loop", "create, s", "p50, ms", "p95, ms", "drop, s", "p50, ms", "p95, ms",
		"statements", "round trips", "PostgreSQL's CPU, ms")
	for _, connections := range floorConnections {
		at := func(value func(floor) float64) float64 {
			var values []float64
			for _, round := range r.Rounds {
				if f, ok := round.floor(connections); ok {
					values = append(values, value(f))
				}
			}
			return median(values)
		}
		t.row(fmt.Sprintf("%d, %d connections", r.Databases, connections),
			number(at(func(f floor) float64 { return f.Create.Total.Seconds() })),
			number(at(func(f floor) float64 { return ms(f.Create.P50) })),
			number(at(func(f floor) float64 { return ms(f.Create.P95) })),
			number(at(func(f floor) float64 { return f.Drop.Total.Seconds() })),
			number(at(func(f floor) float64 { return ms(f.Drop.P50) })),
			number(at(func(f floor) float64 { return ms(f.Drop.P95) })),
			number(at(func(f floor) float64 { return f.CreateSQL.Statements }))+" + "+number(at(func(f floor) float64 { return f.DropSQL.Statements })),
			number(at(func(f floor) float64 { return f.CreateSQL.RoundTrips }))+" + "+number(at(func(f floor) float64 { return f.DropSQL.RoundTrips })),
			number(at(func(f floor) float64 { return ms(f.CreateCPU) / float64(r.Databases) }))+" + "+
				number(at(func(f floor) float64 { return ms(f.DropCPU) / float64(r.Databases) })))
	}
	t.end()
}

// printProgram has the program's times, each beside the bare loop of its own round.
func (r *results) printProgram(w io.Writer) {
	t := newTable(w, "the program", "total, s", "p50, ms", "p95, ms", "to the bare loop")
	line := func(name string, of func(round) burst, against string, ratio func(round) float64) {
		at := func(value func(timing) float64) string {
			return number(r.over(func(r round) float64 { return value(of(r).Timing) }))
		}
		beside := ""
		if ratio != nil {
			beside = fmt.Sprintf("%.2fx %s", r.over(ratio), against)
		}
		t.row(name, at(func(t timing) float64 { return t.Total.Seconds() }), at(func(t timing) float64 { return ms(t.P50) }),
			at(func(t timing) float64 { return ms(t.P95) }), beside)
	}
	line(fmt.Sprintf("%d bare, one after another", singles), func(r round) burst { return burst{Timing: r.Single.Bare} }, "", nil)
	line(fmt.Sprintf("%d one after another, each after a bare one", singles), func(r round) burst { return r.Single.burst }, "the bare one", singleRatio)
	line(fmt.Sprintf("%d at once", fewer), func(r round) burst { return r.Fewer }, "", nil)
	line(fmt.Sprintf("%d at once", r.Databases), func(r round) burst { return r.Many }, "its best total", manyRatio)
	line(fmt.Sprintf("%d deleted at once", r.Databases), func(r round) burst { return r.Delete }, "its best total", deleteRatio)
	if s := r.Scale; s != nil {
		among := s.Steps[len(s.Steps)-1].Restart.N
		t.row(fmt.Sprintf("one after another among %d", among), "", number(ms(s.Alone.Timing.P50)), number(ms(s.Alone.Timing.P95)), "")
		t.row(fmt.Sprintf("the same while all %d are looked at", among), "", number(ms(s.Beside.Timing.P50)), number(ms(s.Beside.Timing.P95)),
			fmt.Sprintf("%.2fx without; %.0f looks a second", ratio(s.Beside.Timing.P50, s.Alone.Timing.P50), s.LooksPerSecond))
	}
	t.end()
}

// printWork has what each phase took for one Database.
func (r *results) printWork(w io.Writer) {
	t := newTable(w, "for each Database", "statements", "round trips", "ms in PostgreSQL", "connections, new / peak",
		"API reads", "API writes", "events", "ms in the API server", "memory: now (its file) / peak, MB", "CPU, ms: program", "PostgreSQL", "API server", "etcd", "client and proxy")
	line := func(name string, n int, c cost) {
		per := func(count float64) string { return number(count / float64(n)) }
		cpu := func(process string) string {
			if used, ok := c.CPU[process]; ok {
				return per(ms(used))
			}
			return ""
		}
		t.row(name, per(float64(c.SQL.Statements)), per(float64(c.SQL.RoundTrips)), per(ms(c.SQL.Waited)),
			fmt.Sprintf("%d / %d", c.SQL.Connections, c.SQL.Peak),
			per(float64(c.API.Reads)), per(float64(c.API.Writes)), per(float64(c.API.Events)), per(ms(c.API.Waited)),
			fmt.Sprintf("%.0f (%.0f) / %.0f", c.Memory.Now, c.Memory.Mapped, c.Memory.Peak), cpu(programName), cpu(postgresProcess),
			cpu(apiServerProcess), cpu(etcdProcess), cpu(filepath.Base(os.Args[0])))
	}
	last := r.Rounds[len(r.Rounds)-1]
	line(fmt.Sprintf("%d one after another", singles), singles, last.Single.Cost)
	line(fmt.Sprintf("%d at once", fewer), fewer, last.Fewer.Cost)
	line(fmt.Sprintf("%d at once", r.Databases), r.Databases, last.Many.Cost)
	line(fmt.Sprintf("%d deleted at once", r.Databases), r.Databases, last.Delete.Cost)
	line(fmt.Sprintf("restart with %d, %.2f s", r.Restart.N, r.Restart.Looked.Seconds()), r.Restart.N, r.Restart.Cost)
	line(fmt.Sprintf("resync of %d, for each look", r.Idle.N), r.Idle.Looks, r.Idle.Cost)
	if r.Scale != nil {
		for _, step := range r.Scale.Steps {
			line(fmt.Sprintf("first look at %d, %.1f s", step.First.Timing.N, step.First.Timing.Total.Seconds()), step.First.Timing.N, step.First.Cost)
			line(fmt.Sprintf("restart with %d, %.2f s", step.Restart.N, step.Restart.Looked.Seconds()), step.Restart.N, step.Restart.Cost)
		}
		among := r.Scale.Steps[len(r.Scale.Steps)-1].Restart.N
		line(fmt.Sprintf("one after another among %d", among), singles, r.Scale.Alone.Cost)
		line(fmt.Sprintf("the same while all %d are looked at", among), singles, r.Scale.Beside.Cost)
	}
	t.end()
	fmt.Fprintln(w)
	if r.Scale != nil && len(r.Scale.Omitted) > 0 {
		fmt.Fprintf(w, "There was no time for %v Databases; see -for.\n", r.Scale.Omitted)
	}
	fmt.Fprintf(w, "Statements of one creation: %s.\n", kinds(last.Single.Cost.SQL, singles))
	fmt.Fprintf(w, "Statements of one deletion: %s.\n", kinds(last.Delete.Cost.SQL, r.Databases))
	fmt.Fprintf(w, "Statements after a restart with %d: %s.\n", r.Restart.N, kinds(r.Restart.Cost.SQL, 1))
	fmt.Fprintf(w, "API requests of one creation: %s.\n", counts(last.Single.Cost.API.Verbs, singles))
}

func (r *results) printTargets(w io.Writer) {
	t := newTable(w, "target", "at most", "measured", "")
	for _, target := range r.Targets {
		t.row(target.Name, strings.TrimSpace(number(target.Target)+" "+target.Unit),
			strings.TrimSpace(number(target.Measured)+" "+target.Unit), target.verdict())
	}
	t.end()
}

// table is a Markdown table with aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, header ...string) table {
	fmt.Fprintln(w)
	t := table{tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)}
	t.row(header...)
	t.row(slices.Repeat([]string{"---"}, len(header))...)
	return t
}

func (t table) row(cells ...string) {
	fmt.Fprintln(t.w, "| "+strings.Join(cells, "\t| ")+"\t|")
}

func (t table) end() { _ = t.w.Flush() }

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// number writes three digits where there are any behind the point.
func number(x float64) string {
	if x >= 100 || x == float64(int(x)) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

func kinds(t traffic, n int) string { return counts(t.Kinds, n) }

// counts lists counts for each of n, by name.
func counts(all map[string]int, n int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, number(float64(all[name])/float64(n))+" "+name)
	}
	return strings.Join(parts, ", ")
}
