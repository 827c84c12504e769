package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTally: of each reason the one that is unready the longest; a paused Database is counted and has no age.
func TestTally(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	sum := newTally()
	sum.add(state{"NameConflict", false}, at(2), at(0), false)
	sum.add(state{"NameConflict", false}, at(1), at(0), false)
	sum.add(state{"NameConflict", false}, at(0), at(0), true)
	sum.add(state{"PodsStarting", false}, at(5), at(0), false)
	sum.add(state{"NoPrimary", false}, at(0), at(0), true)
	sum.add(state{}, time.Time{}, at(4), false)
	sum.add(state{"Provisioned", true}, at(0), at(0), false)
	if diff := cmp.Diff(map[string]time.Time{"NameConflict": at(1), "PodsStarting": at(5), noReason: at(4)}, sum.oldest); diff != "" {
		t.Error(diff)
	}
	if n := sum.count[state{"NameConflict", false}]; n != 3 || sum.count[state{noReason, false}] != 1 {
		t.Errorf("it counts %v", sum.count)
	}
}
