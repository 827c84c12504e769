//go:build linux

package faults

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pollInterval is how often the Poller looks.
const pollInterval = 100 * time.Millisecond

// Sighting is who was behind the Service at a moment.
type Sighting struct {
	At   time.Time
	Pods []string
}

// Sightings are what a Poller saw.
type Sightings struct {
	Polls, None, Failed int
	// Blind is the longest time without a look that succeeded.
	Blind time.Duration
	// Several are those with more than one ready endpoint.
	Several []Sighting
	// Changes are those that saw others than the one before.
	Changes []Sighting
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
	mu     sync.Mutex
	seen   Sightings
	last   time.Time // of the last look that succeeded
}

// StartPoller starts to look.
func StartPoller(ctx context.Context, c client.Client, namespace, service string) *Poller {
	ctx, cancel := context.WithCancel(ctx)
	p := &Poller{cancel: cancel, done: make(chan struct{}), last: time.Now()}
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		for {
			pods, err := readyEndpoints(ctx, c, namespace, service)
			if ctx.Err() != nil {
				return
			}
			p.note(time.Now(), pods, err)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return p
}

func (p *Poller) note(at time.Time, pods []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.seen
	if err != nil {
		s.Failed++
		return
	}
	s.Polls++
	s.Blind, p.last = max(s.Blind, at.Sub(p.last)), at
	switch len(pods) {
	case 0:
		s.None++
	case 1:
	default:
		s.Several = append(s.Several, Sighting{at, pods})
	}
	if n := len(s.Changes); n == 0 || !slices.Equal(s.Changes[n-1].Pods, pods) {
		s.Changes = append(s.Changes, Sighting{at, pods})
	}
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

// readyEndpoints are the pods that the Service sends connections to, by name.
func readyEndpoints(ctx context.Context, c client.Client, namespace, service string) ([]string, error) {
	var slicesOf discoveryv1.EndpointSliceList
	err := c.List(ctx, &slicesOf, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service})
	if err != nil {
		return nil, err
	}
	pods := map[string]string{} // by uid or address: during a change of slices one may be in two
	for _, slice := range slicesOf.Items {
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
	return slices.Sorted(maps.Values(pods)), nil
}
