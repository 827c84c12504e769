//go:build linux

package faults

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHold: a fault that is to bring another primary isn't made good before it has, and at last in any case.
func TestHold(t *testing.T) {
	for _, test := range []struct {
		sentence string
		fault    Fault
		after    time.Duration // is another one seen
		want     time.Duration
	}{
		{"it doesn't last", Fault{Moves: true}, time.Hour, 0},
		{"nobody need take over", Fault{Hold: holdLong}, time.Hour, holdLong},
		{"another one takes over in time", Fault{Hold: holdLong, Moves: true}, 20 * time.Second, holdLong},
		{"it does late", Fault{Hold: holdLong, Moves: true}, 45 * time.Second, 45 * time.Second},
		{"it never does", Fault{Hold: holdLong, Moves: true}, time.Hour, holdMost},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			hold(t.Context(), test.fault, "db-0", func() Sightings {
				seen := Sightings{Changes: []Sighting{{Pods: []string{"db-0"}}, {}}}
				if time.Since(began) >= test.after {
					seen.Changes = append(seen.Changes, Sighting{Pods: []string{"db-1"}})
				}
				return seen
			})
			if took := time.Since(began); took < test.want || took > test.want+pollInterval {
				t.Errorf("%s: it lasts %s, want %s", test.sentence, took, test.want)
			}
		})
	}
}
