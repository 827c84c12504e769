package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTimingIsOfTheWholeAndOfEach(t *testing.T) {
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	var spans []span
	for i := range 20 {
		spans = append(spans, span{at(i), at(2*i + 1)}) // they take 1 to 20 seconds
	}
	want := timing{N: 20, Total: 39 * time.Second, P50: 11 * time.Second, P95: 20 * time.Second}
	if diff := cmp.Diff(want, timingOf(spans)); diff != "" {
		t.Errorf("timing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(timing{}, timingOf(nil)); diff != "" {
		t.Errorf("timing of nothing (-want +got):\n%s", diff)
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, test := range []struct {
		values []int
		want   int
	}{
		{[]int{7}, 7},
		{[]int{9, 1}, 1},
		{[]int{9, 1, 5}, 5},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("median of %v is %d, want %d", test.values, got, test.want)
		}
	}
}

func TestVerdictSaysByHowMuch(t *testing.T) {
	for _, test := range []struct {
		target target
		want   string
	}{
		{target{Measured: 2, Target: 2}, "met"},
		{target{Measured: 3, Target: 2}, "missed by 50 %"},
		{target{Measured: 3, Target: 0, Unit: "writes"}, "missed by 3 writes"},
	} {
		if got := test.target.verdict(); got != test.want {
			t.Errorf("verdict on %+v is %q, want %q", test.target, got, test.want)
		}
	}
}
