package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are what is counted where it happens. Gauges are looked up when they are collected.
type instruments struct {
	provision, ready, roundTrip            metric.Float64Histogram
	repaired, rotations, refused, failover metric.Int64Counter
}

func newInstruments(m metric.Meter) (*instruments, error) {
	var all error
	histogram := func(name, what string, bounds ...float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		all = errors.Join(all, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		all = errors.Join(all, err)
		return c
	}
	i := &instruments{
		provision: histogram(nameProvision, "Time to bring a role and a database to the spec, or to see that they are.",
			.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		ready: histogram(nameReady, "Time from the creation of a Database until it was Ready for the first time.",
			.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600),
		roundTrip: histogram(nameRoundTrip, "Time of one round trip to PostgreSQL.", .001, .005, .01, .05, .1, .5, 1, 5, 10),
		repaired:  counter(nameRepaired, "{repair}", "Changes that put back what others had changed of a Ready Database in PostgreSQL."),
		rotations: counter(nameRotations, "{rotation}", "New passwords made for Databases that had one."),
		refused:   counter(nameRefused, "{refusal}", "Databases that were refused because what they ask for is somebody else's."),
		failover:  counter(nameFailovers, "{failover}", "Primaries of dedicated servers replaced by another pod."),
	}
	return i, all
}
