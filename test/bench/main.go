package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the command line's.
type options struct {
	databases, rounds, major int
	// budget is how long it may take where rounds and steps are left out for it.
	budget time.Duration
	// scale are the numbers of Databases for the phases that PostgreSQL's catalog alone carries.
	scale []int
	// dir is where PostgreSQL's data goes; out is the JSON file.
	dir, out string
	// profiles is the folder for profiles of the program; empty for none.
	profiles string
}

func main() {
	log.SetLogger(logr.Discard()) // the library's, which asks for one
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var scale string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.databases, "n", 200, "how many `databases` are made at once")
	flags.IntVar(&o.rounds, "rounds", 3, "how often the loop and the program are measured in turn, if the time suffices")
	flags.DurationVar(&o.budget, "for", 9*time.Minute, "leave out rounds and numbers that won't fit into this `time`; one round is always made")
	flags.StringVar(&scale, "scale", "1000,10000", "numbers of Databases for restarts, memory and resyncs; empty for none")
	flags.IntVar(&o.major, "postgres", 17, "major `version` of PostgreSQL")
	flags.StringVar(&o.dir, "dir", "", "`folder` for PostgreSQL's data (default: a temporary one)")
	flags.StringVar(&o.out, "o", "", "JSON `file` for the results (default: a temporary one)")
	flags.StringVar(&o.profiles, "profile", "", "`folder` for CPU and heap profiles of each phase")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for _, field := range strings.FieldsFunc(scale, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || len(o.scale) > 0 && n <= o.scale[len(o.scale)-1] {
			return o, fmt.Errorf("-scale %s: must be growing numbers, separated by commas", scale)
		}
		o.scale = append(o.scale, n)
	}
	if flags.NArg() > 0 || o.databases < 1 || o.rounds < 1 {
		return o, errors.New("there are no arguments, and -n and -rounds are at least 1; see -help")
	}
	return o, nil
}

// run measures everything, prints the table and writes the JSON file, whose path is the last line. Where a later phase
// fails, what was measured before is still told.
func run(ctx context.Context, o options) (err error) {
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	r := newResults(o, w)
	failed := measure(ctx, w, r)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if failed != nil {
		failed = fmt.Errorf("%w\n%s", failed, w.lastLog())
	}
	if r.Idle.Looks == 0 {
		return failed
	}
	took := time.Since(w.began)
	r.Seconds, r.Others = took.Seconds(), shareNow().others(w.share, took)
	r.Targets = judge(r)
	file, err := r.save(o.out)
	if err != nil {
		return errors.Join(failed, err)
	}
	r.print(os.Stdout)
	fmt.Println(file)
	return failed
}

func measure(ctx context.Context, w *world, r *results) error {
	for i := range w.options.rounds {
		began := time.Now()
		round, err := measureRound(ctx, w, i)
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		r.Rounds = append(r.Rounds, round)
		// The other phases take about two thirds of three rounds.
		if !w.fits(time.Since(began) + w.options.budget/3) {
			break
		}
	}
	var err error
	if r.Restart, r.Idle, err = measureRestart(ctx, w); err != nil {
		return err
	}
	scale, err := measureScale(ctx, w)
	if err == nil {
		r.Scale = scale
	}
	return err
}

// fits reports whether something that takes so long can still be done.
func (w *world) fits(d time.Duration) bool { return time.Since(w.began)+d <= w.options.budget }

// progress tells on standard error what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05")+" "+format+"\n", args...)
}
