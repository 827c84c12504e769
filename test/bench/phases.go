package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// limit is how long a phase may take; it is far from where all goes well.
	limit = 3 * time.Minute
	// never is a resync so rare that none falls into a phase.
	never = 24 * time.Hour
	// often is the shortest resync that the program takes.
	often = 10 * time.Second
	// singles is how many Databases are made one after another.
	singles = 20
	// fewer is the smaller number made at once.
	fewer = 50
)

// burst is what a number of creations or deletions took.
type burst struct {
	Timing timing
	Cost   cost
}

// round is one comparison of the bare loop and the program.
type round struct {
	Floors              []floor
	Single              pairs
	Fewer, Many, Delete burst
}

// pairs are Databases made one after another, each beside a bare creation at one connection just before, so that both
// find the machine in the same state.
type pairs struct {
	burst
	Bare timing
	// Ratio is the median of the ratios of each pair.
	Ratio float64
}

func measureRound(ctx context.Context, w *world, i int) (r round, err error) {
	bare := func(connections int) error {
		progress("round %d: bare loop, %d connections", i+1, connections)
		f, err := measureFloor(ctx, w.main, fmt.Sprintf("f%d-%d", i, connections), connections, w.options.databases)
		r.Floors = append(r.Floors, f)
		return err
	}
	if i == 0 {
		if err := bare(1); err != nil {
			return r, err
		}
	}
	// The program's turn is between the two that it is compared with: the machine may be shared with others.
	if err := bare(4); err != nil {
		return r, err
	}
	progress("round %d: the program", i+1)
	c, err := w.warm(ctx, w.main, fmt.Sprint("w", i))
	if err != nil {
		return r, err
	}
	if r.Single, err = w.pairs(ctx, w.main, c, fmt.Sprint("a", i)); err != nil {
		return r, err
	}
	if r.Fewer, _, err = w.atOnce(ctx, c, names(fmt.Sprint("b", i), fewer)); err != nil {
		return r, err
	}
	if r.Many, r.Delete, err = w.atOnce(ctx, c, names(fmt.Sprint("c", i), w.options.databases)); err != nil {
		return r, err
	}
	if err := c.stop(); err != nil {
		return r, err
	}
	return r, bare(10)
}

// pairs makes single databases by turns with the program and without it.
func (w *world) pairs(ctx context.Context, d *database, c *controller, prefix string) (pairs, error) {
	var p pairs
	conn, err := pgx.Connect(ctx, d.bareDSN)
	if err != nil {
		return p, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	m, err := w.begin(d, c)
	if err != nil {
		return p, err
	}
	var bare []span
	var ratios []float64
	made, statements := names(prefix, singles), d.bareStatements()
	for _, name := range made {
		from := time.Now()
		if err := send(ctx, conn, statements.create("bare-"+name)); err != nil {
			return p, err
		}
		alone := span{from, time.Now()}
		bare = append(bare, alone)
		if err := w.create(ctx, []string{name}, limit); err != nil {
			return p, err
		}
		ratios = append(ratios, ratio(w.objects.creation([]string{name}).Total, alone.to.Sub(alone.from)))
	}
	p.Timing, p.Bare, p.Ratio = w.objects.creation(made), timingOf(bare), median(ratios)
	if p.Cost, err = m.end(ctx); err != nil {
		return p, err
	}
	delete(p.Cost.CPU, postgresProcess) // which worked for both
	for _, name := range made {
		if err := send(ctx, conn, statements.drop("bare-"+name)); err != nil {
			return p, err
		}
	}
	return p, w.remove(ctx, made)
}

// warm starts the program and lets it make and drop one database, so that it watches and has a connection.
func (w *world) warm(ctx context.Context, d *database, name string) (*controller, error) {
	c, err := w.startController(d, never)
	if err != nil {
		return nil, err
	}
	return c, w.createAndDrop(ctx, []string{name})
}

func (w *world) createAndDrop(ctx context.Context, names []string) error {
	if err := w.create(ctx, names, limit); err != nil {
		return err
	}
	return w.remove(ctx, names)
}

// create makes Databases at once and waits until all are Ready.
func (w *world) create(ctx context.Context, names []string, limit time.Duration) error {
	if err := w.objects.create(ctx, names); err != nil {
		return err
	}
	return w.until(ctx, limit, fmt.Sprintf("%d Databases becoming Ready", len(names)), w.objects.allReady(names))
}

// remove deletes Databases at once and waits until all are gone.
func (w *world) remove(ctx context.Context, names []string) error {
	if err := w.objects.remove(ctx, names); err != nil {
		return err
	}
	return w.until(ctx, limit, fmt.Sprintf("%d Databases going", len(names)), w.objects.allGone(names))
}

// oneByOne makes Databases, each when the one before is Ready, and deletes them.
func (w *world) oneByOne(ctx context.Context, d *database, c *controller, names []string) (burst, error) {
	m, err := w.begin(d, c)
	if err != nil {
		return burst{}, err
	}
	for _, name := range names {
		if err := w.create(ctx, []string{name}, limit); err != nil {
			return burst{}, err
		}
	}
	b := burst{Timing: w.objects.creation(names)}
	if b.Cost, err = m.end(ctx); err != nil {
		return b, err
	}
	return b, w.remove(ctx, names)
}

// atOnce makes Databases at once, then deletes them at once: as in the bare loop, what PostgreSQL has still to write
// of their creation belongs to their deletion.
func (w *world) atOnce(ctx context.Context, c *controller, names []string) (created, deleted burst, err error) {
	if err := w.main.checkpoint(ctx); err != nil {
		return created, deleted, err
	}
	m, err := w.begin(w.main, c)
	if err != nil {
		return created, deleted, err
	}
	if err := w.create(ctx, names, limit); err != nil {
		return created, deleted, err
	}
	created.Timing = w.objects.creation(names)
	if created.Cost, err = m.end(ctx); err != nil {
		return created, deleted, err
	}
	if m, err = w.begin(w.main, c); err != nil {
		return created, deleted, err
	}
	if err := w.remove(ctx, names); err != nil {
		return created, deleted, err
	}
	deleted.Timing = w.objects.deletion(names)
	deleted.Cost, err = m.end(ctx)
	return created, deleted, err
}

// restart is what the program did after its start with N Databases that are as they should be.
type restart struct {
	N int
	// Looked is the time from the process's start to the look at the last Database.
	Looked time.Duration
	Cost   cost
}

// idle is one look at each of N Databases that are as they should be; Looks counts those that were looked at twice.
type idle struct {
	N, Looks int
	Cost     cost
}

// measureRestart restarts the program with many Databases, and lets a resync pass by.
func measureRestart(ctx context.Context, w *world) (restart, idle, error) {
	const prefix = "r"
	all := names(prefix, w.options.databases)
	progress("restart and resync with %d", len(all))
	c, err := w.warm(ctx, w.main, "wr")
	if err != nil {
		return restart{}, idle{}, err
	}
	if err := w.create(ctx, all, limit); err != nil {
		return restart{}, idle{}, err
	}
	if err := c.stop(); err != nil {
		return restart{}, idle{}, err
	}
	r, c, err := w.restart(ctx, w.main, never, prefix, len(all))
	if err != nil {
		return r, idle{}, err
	}
	if err := c.stop(); err != nil {
		return r, idle{}, err
	}
	_, c, err = w.restart(ctx, w.main, often, prefix, len(all))
	if err != nil {
		return r, idle{}, err
	}
	i, err := w.resync(ctx, w.main, c, prefix, len(all))
	if err != nil {
		return r, i, err
	}
	if err := w.remove(ctx, all); err != nil {
		return r, i, err
	}
	return r, i, c.stop()
}

// restart starts the program and waits until it has looked at n Databases.
func (w *world) restart(ctx context.Context, d *database, resync time.Duration, prefix string, n int) (restart, *controller, error) {
	r := restart{N: n}
	m, err := w.beginStart(d, resync)
	if err != nil {
		return r, nil, err
	}
	if err := w.until(ctx, limit, fmt.Sprintf("a look at %d Databases after a start", n), d.lookedAt(prefix, n)); err != nil {
		return r, nil, err
	}
	_, last := d.proxy.bound(prefix + "-")
	r.Looked = last.Sub(m.controller.started)
	r.Cost, err = m.end(ctx)
	return r, m.controller, err
}

// resync waits until the running program has looked at n Databases once more.
func (w *world) resync(ctx context.Context, d *database, c *controller, prefix string, n int) (idle, error) {
	i := idle{N: n}
	m, err := w.begin(d, c)
	if err != nil {
		return i, err
	}
	looks := d.proxy.looks()
	if err := w.until(ctx, limit, fmt.Sprintf("a resync of %d Databases", n), d.lookedAt(prefix, n)); err != nil {
		return i, err
	}
	i.Cost, err = m.end(ctx)
	i.Looks = d.proxy.looks() - looks
	return i, err
}

// lookedAt reports that the state of n names with a prefix was read since the proxy's reset.
func (d *database) lookedAt(prefix string, n int) func() (bool, error) {
	return func() (bool, error) {
		found, _ := d.proxy.bound(prefix + "-")
		return found >= n, nil
	}
}
