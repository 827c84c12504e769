//go:build linux

package faults

import (
	"os"
	"path/filepath"
	"strings"
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

// TestDemotion: where a primary that was to stay doesn't, the violation quotes what that one says of it, if it is known.
func TestDemotion(t *testing.T) {
	logs := &Logs{folder: t.TempDir()}
	for name, content := range map[string]string{
		"db-0-12345678-0.log": `1 INFO: Got response from db-2 http://198.18.0.4:8008/failsafe: Accepted
2 WARNING: Request failed to db-1: POST http://198.18.0.3:8008/failsafe (timed out)
3 INFO: demoting self because DCS is not accessible and I was a leader
4 WARNING: Request failed to db-2: POST http://198.18.0.4:8008/failsafe (timed out)
`,
		"db-1-12345678-0.log":  "1 INFO: no action\n",
		"db-10-12345678-0.log": "1 INFO: demoted self because failed to update leader lock in DCS\n",
	} {
		if err := os.WriteFile(filepath.Join(logs.folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pod, want := range map[string]string{
		"db-0": "db-0 was to stay, which says: 2 WARNING: Request failed to db-1: POST http://198.18.0.3:8008/failsafe (timed out); 3 INFO: demoting self because DCS is not accessible and I was a leader",
		"db-1": "db-1 was to stay",
	} {
		result := &Result{OldPrimary: pod}
		checkStays(Sightings{Changes: []Sighting{{Pods: []string{"db-2"}}}}, logs, result)
		if len(result.Violations) != 1 || !strings.HasSuffix(result.Violations[0], want) {
			t.Errorf("%s: %q", pod, result.Violations)
		}
	}
}
