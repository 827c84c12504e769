package main

import (
	"context"
	"time"
)

// cost is what a phase took of PostgreSQL, of the API server and of the machine.
type cost struct {
	SQL traffic
	API requests
	CPU cpu
	// Memory is the program's at the phase's end.
	Memory memory
}

// meter measures the cost of one phase.
type meter struct {
	world      *world
	database   *database
	controller *controller
	sql        traffic
	audit      int64
	cpu        cpu
}

// begin starts measuring.
func (w *world) begin(d *database, c *controller) (*meter, error) {
	d.proxy.reset()
	audit, err := w.audit.end()
	if err != nil {
		return nil, err
	}
	m := &meter{world: w, database: d, controller: c, sql: d.proxy.snapshot(), audit: audit, cpu: cpuOfAll()}
	if c == nil {
		return m, nil
	}
	return m, c.profile(w.options.profiles)
}

// beginStart starts the program and measures it from there on.
func (w *world) beginStart(d *database, resync time.Duration) (*meter, error) {
	m, err := w.begin(d, nil)
	if err != nil {
		return nil, err
	}
	m.controller, err = w.startController(d, resync, profileAtStart+"=true")
	return m, err
}

// settle is how long a phase is watched after its end: what the program does then belongs to it.
const settle = time.Second

// end stops measuring after what the phase set off has settled.
func (m *meter) end(ctx context.Context) (cost, error) {
	if err := pause(ctx, settle); err != nil {
		return cost{}, err
	}
	if err := m.controller.profile(m.world.options.profiles); err != nil {
		return cost{}, err
	}
	c := cost{SQL: m.database.proxy.snapshot().minus(m.sql), CPU: cpuOfAll().minus(m.cpu), Memory: m.controller.memory()}
	var err error
	c.API, err = m.world.audit.since(m.audit)
	return c, err
}
