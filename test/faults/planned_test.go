//go:build linux

package faults

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGaps(t *testing.T) {
	since := time.Now()
	at := func(milliseconds int) Ack { return Ack{At: since.Add(time.Duration(milliseconds) * time.Millisecond)} }
	acks := []Ack{at(-900), at(-20), at(10), at(30), at(2530), at(2550), at(2860)}
	want := []Gap{{After: 30, Length: 2500}, {After: 2550, Length: 310}}
	if diff := cmp.Diff(want, gaps(acks, since)); diff != "" {
		t.Error(diff)
	}
}
