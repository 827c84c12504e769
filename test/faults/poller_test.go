//go:build linux

package faults

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/internal/testenv"
)

func endpoint(pod, uid, address string, ready *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: ready},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: pod, UID: types.UID(uid)},
	}
}

func slice(namespace, name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
	}
}

// TestPoller: two ready pods are seen, even where one has the other's name; one pod in two slices is one.
func TestPoller(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	asked := 0
	p := StartPoller(t.Context(), c, namespace, "db", func(context.Context) string { asked++; return "both take writes" })
	defer p.Stop()
	last := func() []string {
		if changes := p.Seen().Changes; len(changes) > 0 {
			return changes[len(changes)-1].Pods
		}
		return []string{"nothing was polled"}
	}
	see := func(what string, want ...string) {
		t.Helper()
		eventually(t, what, func() bool { return slices.Equal(last(), want) })
	}
	see("nobody is there")
	yes, no := true, false
	first := slice(namespace, "one", endpoint("db-0", "a", "198.18.0.2", &yes), endpoint("db-1", "b", "198.18.0.3", &no))
	if err := c.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	see("the ready one is there", "db-0")
	if err := c.Create(t.Context(), slice(namespace, "two", endpoint("db-0", "a", "198.18.0.2", nil))); err != nil {
		t.Fatal(err)
	}
	polls := p.Seen().Polls
	eventually(t, "it looks again", func() bool { return p.Seen().Polls > polls+2 })
	if seen := p.Seen(); len(seen.Several) > 0 || seen.None == 0 || seen.Failed > 0 {
		t.Errorf("one primary was seen as %+v", seen)
	}
	first.Endpoints[1] = endpoint("db-0", "c", "198.18.0.3", &yes)
	if err := c.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	see("two of a name are there", "db-0", "db-0")
	eventually(t, "they are seen twice", func() bool { return len(p.Seen().Several) > 1 })
	seen := p.Stop()
	if seen.Several[0].At.After(time.Now()) || asked != 1 || seen.Said != "both take writes" {
		t.Errorf("two were seen as %+v, and asked %d times", seen, asked)
	}
	// An object that nobody changes keeps its version, and one that is changed doesn't.
	before, err := readyEndpoints(t.Context(), c, namespace, "db")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := readyEndpoints(t.Context(), c, namespace, "db"); err != nil || len(again.versions) != 2 || !maps.Equal(before.versions, again.versions) {
		t.Errorf("the versions were %v and are %v, %v", before.versions, again.versions, err)
	}
	first.Endpoints[1] = endpoint("db-0", "c", "198.18.0.3", &no)
	if err := c.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if now, err := readyEndpoints(t.Context(), c, namespace, "db"); err != nil || maps.Equal(before.versions, now.versions) {
		t.Errorf("the versions are %v before and after a change, %v", now.versions, err)
	}
	// Of another Service's nothing is seen.
	other := slice(namespace, "other", endpoint("other-0", "d", "198.18.0.4", &yes))
	other.Labels[discoveryv1.LabelServiceName] = "other"
	if err := c.Create(t.Context(), other, &client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if found, err := readyEndpoints(t.Context(), c, namespace, "other"); err != nil || !slices.Equal(found.ready, []string{"other-0"}) {
		t.Errorf("the other Service has %v, %v", found.ready, err)
	}
}

func TestLongestWithout(t *testing.T) {
	since := time.Now()
	for _, test := range []struct {
		sentence string
		changes  []int // in seconds after the fault: each takes the primary away, or brings it
		first    bool  // whether there is one after the first
		want     int
	}{
		{"with a primary all the time", []int{-5}, true, 0},
		{"a time before the fault doesn't count", []int{-5, -4, -2}, true, 0},
		{"of a time that began before the fault, only what came after", []int{-5, -4, 3}, true, 3},
		{"the longest of several", []int{-5, 1, 2, 4, 8, 9, 10}, true, 4},
		{"what goes on counts until the end", []int{-5, 4}, true, 16},
		{"never one", []int{-5}, false, 20},
		{"no look", nil, true, 0},
	} {
		var seen Sightings
		for i, at := range test.changes {
			change := Sighting{At: since.Add(time.Duration(at) * time.Second)}
			if test.first == (i%2 == 0) {
				change.Pods = []string{"db-0"}
			}
			seen.Changes = append(seen.Changes, change)
		}
		if got := seen.longestWithout(since, since.Add(20*time.Second)); got != time.Duration(test.want)*time.Second {
			t.Errorf("%s: %s, want %d s", test.sentence, got, test.want)
		}
	}
}
