//go:build linux

package faults

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pollInterval is how often the Poller looks.
	pollInterval = 100 * time.Millisecond
	// lastLook is how long the look at the end may take.
	lastLook = 10 * time.Second
)

// Sighting is who was behind the Service at a moment.
type Sighting struct {
	At   time.Time
	Pods []string
}

// Sightings are what a Poller saw.
type Sightings struct {
	Polls, None, Failed int
	// Blind is the longest time without a look that succeeded, of those in which something may have been missed.
	Blind time.Duration
	// Several are those with more than one ready endpoint, and Said is what the members said when the first was seen.
	Several []Sighting
	Said    string
	// Changes are those that saw others than the one before.
	Changes []Sighting
}

// otherThan is the first pod that was seen ready and isn't this one; empty for none.
func (s Sightings) otherThan(pod string) string {
	for _, change := range s.Changes {
		for _, other := range change.Pods {
			if other != pod {
				return other
			}
		}
	}
	return ""
}

// longestWithout is the longest time without a ready endpoint between two moments.
func (s Sightings) longestWithout(since, until time.Time) (longest time.Duration) {
	for i, change := range s.Changes {
		end := until
		if i+1 < len(s.Changes) {
			end = s.Changes[i+1].At
		}
		if len(change.Pods) > 0 {
			continue
		}
		begin := change.At
		if begin.Before(since) {
			begin = since
		}
		longest = max(longest, end.Sub(begin))
	}
	return longest
}

// Poller looks again and again at the ready endpoints of a Service.
type Poller struct {
	cancel context.CancelFunc
	done   chan struct{}
	asking sync.WaitGroup
	mu     sync.Mutex
	seen   Sightings
	// The last look that succeeded.
	last     time.Time
	versions map[types.UID]string
}

// StartPoller starts to look. Where it sees more than one ready endpoint it asks, once, what they are.
func StartPoller(ctx context.Context, c client.Client, namespace, service string, ask func(context.Context) string) *Poller {
	ctx, cancel := context.WithCancel(ctx)
	p := &Poller{cancel: cancel, done: make(chan struct{}), last: time.Now()}
	go func() {
		defer close(p.done)
		defer p.asking.Wait()
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		look := func(ctx context.Context) {
			found, err := readyEndpoints(ctx, c, namespace, service)
			if ctx.Err() != nil {
				return
			}
			if first := p.note(time.Now(), found, err); first {
				p.asking.Go(func() { p.hear(ask(context.WithoutCancel(ctx))) }) // beside the looks
			}
		}
		for ctx.Err() == nil {
			look(ctx)
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
		defer cancel()
		look(ctx) // the one that was broken off may have been under way for long
	}()
	return p
}

func (p *Poller) hear(said string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Said = said
}

// note says whether this is the first look that saw more than one.
func (p *Poller) note(at time.Time, found endpoints, err error) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.seen
	if err != nil {
		s.Failed++
		return false
	}
	s.Polls++
	// The machine may stand still for a while. Where the slices are the same before and after, nothing was missed: no write
	// leaves an object its version, and one that is made again has another UID. (One that comes and goes meanwhile, beside those
	// that are there, would be missed. Kubernetes makes a second one for a hundred endpoints.)
	if len(p.versions) == 0 || !maps.Equal(p.versions, found.versions) {
		s.Blind = max(s.Blind, at.Sub(p.last))
	}
	p.last, p.versions = at, found.versions
	pods := found.ready
	switch len(pods) {
	case 0:
		s.None++
	case 1:
	default:
		first = len(s.Several) == 0
		s.Several = append(s.Several, Sighting{at, pods})
	}
	if n := len(s.Changes); n == 0 || !slices.Equal(s.Changes[n-1].Pods, pods) {
		s.Changes = append(s.Changes, Sighting{at, pods})
	}
	return first
}

// Seen is what was seen so far.
func (p *Poller) Seen() Sightings {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	seen.Blind = max(seen.Blind, time.Since(p.last)) // it may be failing now
	return seen
}

// Stop ends the looking and returns all that was seen.
func (p *Poller) Stop() Sightings {
	p.cancel()
	<-p.done
	return p.Seen()
}

// endpoints are what is behind a Service.
type endpoints struct {
	ready    []string             // the pods that it sends connections to, by name
	versions map[types.UID]string // of the EndpointSlices
}

func readyEndpoints(ctx context.Context, c client.Client, namespace, service string) (endpoints, error) {
	var slicesOf discoveryv1.EndpointSliceList
	err := c.List(ctx, &slicesOf, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service})
	if err != nil {
		return endpoints{}, err
	}
	versions := map[types.UID]string{}
	pods := map[string]string{} // by uid or address: during a change of slices one may be in two
	for _, slice := range slicesOf.Items {
		versions[slice.UID] = slice.ResourceVersion
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready { // none given means ready
				continue
			}
			key, name := endpoint.Addresses[0], endpoint.Addresses[0]
			if endpoint.TargetRef != nil {
				key, name = string(endpoint.TargetRef.UID), endpoint.TargetRef.Name
			}
			pods[key] = name
		}
	}
	return endpoints{ready: slices.Sorted(maps.Values(pods)), versions: versions}, nil
}
