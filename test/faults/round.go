//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/example/databases/api/database/v1"
)

const (
	// warmUp is how long a Writer must have written before a fault.
	warmUp = 2 * time.Second
	// startLimit is how long it may take for a Writer's first row.
	startLimit = time.Minute
	// RecoveryLimit is how long a Database may take to be as it was.
	RecoveryLimit = 10 * time.Minute
	// compareLimit is how long the comparison of the rows may take, with what standbys need to catch up; and how long the
	// Service may have no ready endpoint when somebody asks for it.
	compareLimit = 2 * time.Minute
	// settledFor is how long nothing must be missing: a status is late now and then.
	settledFor = 3 * time.Second
	// watchedFor is how long a Database is watched after a fault, even if nothing seems to come of it.
	watchedFor = 15 * time.Second
	// blindLimit is how long the Poller may see nothing where something changed: no shorter time with two primaries matters that it
	// could miss.
	blindLimit = 3 * time.Second
)

// Runner does rounds on one Database.
type Runner struct {
	Target *Target
	Ledger *Ledger
	// Program is the writer's, and Application the pod in whose network it runs: the host's address is the API server's,
	// which a fault may cut off.
	Program, Application string
	// Logs are followed by who does the rounds, if anybody: a violation may quote them.
	Logs *Logs
}

// Result is what came of a round. Times are in milliseconds.
type Result struct {
	Number     int       `json:"number"`
	Database   string    `json:"database"`
	Fault      string    `json:"fault"`
	Durability string    `json:"durability"`
	Injected   time.Time `json:"injected,omitzero"` // unset where the fault couldn't be done
	OldPrimary string    `json:"oldPrimary"`
	NewPrimary string    `json:"newPrimary"`
	Written    int       `json:"written"`  // rows that were acknowledged in this round
	Unknown    int       `json:"unknown"`  // rows that were sent and not acknowledged
	Compared   bool      `json:"compared"` // whether the rows were looked for on all members: else none is known to be lost
	Lost       int       `json:"lost"`
	Polls      int       `json:"polls"`
	Failed     int       `json:"pollsFailed"`
	Blind      int64     `json:"longestBlindMs"` // without a poll, where something may have been missed
	NoPrimary  int       `json:"pollsWithoutPrimary"`
	Double     int       `json:"pollsWithTwo"`
	Primaries  string    `json:"primaries"` // who was ready when, from the fault on
	Outage     int64     `json:"outageMs"`  // in a round in trouble: as far as it was seen
	Target     int64     `json:"targetMs"`
	Unready    int64     `json:"longestWithoutPrimaryMs"` // from the fault on: new connections had nowhere to go
	Recovery   int64     `json:"recoveryMs"`              // from the fault until all replicas stream again
	// Gaps are the times without writes of which Outage is the longest.
	Gaps []Gap `json:"gaps,omitempty"`
	// Errors are what the application saw, by kind.
	Errors map[string]int `json:"errors,omitempty"`
	// Violations are what must not be, each a line.
	Violations []string `json:"violations,omitempty"`
	// Trouble is why the round could not be carried out to its end.
	Trouble string `json:"trouble,omitempty"`
}

// Bad says that the round needs to be looked into.
func (r *Result) Bad() bool { return len(r.Violations) > 0 || r.Trouble != "" }

// OverTarget says that writes were out for longer than the fault's target.
func (r *Result) OverTarget() bool { return r.Target > 0 && r.Outage > r.Target }

func (r *Result) violate(format string, values ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, values...))
}

// Run does a fault to the Database, which must have settled.
func (r *Runner) Run(ctx context.Context, fault Fault) *Result {
	result := &Result{Database: r.Target.Name, Fault: fault.Name, Target: fault.Target.Milliseconds()}
	if err := r.run(ctx, fault, result); err != nil {
		result.Trouble = err.Error()
	}
	if !result.Injected.IsZero() {
		wait(ctx, fault.Aftermath) // at the end, so that what is measured in this round has ended, and the next one finds a sound Database
	}
	return result
}

func (r *Runner) run(ctx context.Context, fault Fault, result *Result) (failed error) {
	if err := r.Await(ctx); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	db, err := r.Target.database(ctx)
	if err != nil {
		return err
	}
	result.Durability = string(db.Spec.Durability)
	primary, err := r.Target.awaitPrimary(ctx)
	if err != nil {
		return err
	}
	result.OldPrimary = primary.Name
	writer, err := r.write(ctx)
	if err != nil {
		return err
	}
	poller := StartPoller(ctx, r.Target.Client, r.Target.Namespace, r.Target.Name, r.Target.takesWrites)
	began := time.Now()
	defer func() {
		seen := poller.Stop()
		if fault.Stays {
			checkStays(seen, r.Logs, result)
		}
		checkPolls(seen, result)
		failed = errors.Join(failed, r.conclude(ctx, writer, seen, began, result))
	}()
	wait(ctx, warmUp)
	began = time.Now()
	harm, err := fault.Inject(ctx, r.Target, primary)
	if err != nil {
		return err
	}
	result.Injected = began
	hold(ctx, fault, primary.Name, poller.Seen)
	err = r.checkEnded(ctx, fault, primary, result)
	if healed := harm.Heal(context.WithoutCancel(ctx)); healed != nil {
		err = errors.Join(err, fmt.Errorf("making %s good: %w", fault.Name, healed))
	}
	if err != nil {
		return err
	}
	settled, err := r.awaitAfter(ctx, writer, result.Injected, max(watchedFor, fault.Watch))
	if err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	result.Recovery = max(0, settled.Sub(result.Injected).Milliseconds())
	now, err := r.Target.awaitPrimary(ctx)
	if err != nil {
		return err
	}
	result.NewPrimary = now.Name
	if fault.Moves {
		checkMoves(result)
	}
	return nil
}

// wait waits for a time, or until nobody waits for the round any more.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// hold waits for as long as a fault lasts: where another member must take over, until one has, as the old one may win again if it
// is let back at the last moment.
func hold(ctx context.Context, fault Fault, old string, seen func() Sightings) {
	wait(ctx, fault.Hold)
	if fault.Hold == 0 || !fault.Moves {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, holdMost-fault.Hold)
	defer cancel()
	for seen().otherThan(old) == "" && ctx.Err() == nil {
		wait(ctx, pollInterval)
	}
}

// checkEnded looks, where the container must have been ended, whether it was.
func (r *Runner) checkEnded(ctx context.Context, fault Fault, primary *corev1.Pod, result *Result) error {
	if !fault.Ends {
		return nil
	}
	ended, err := r.Target.ended(ctx, primary)
	if err != nil {
		return fmt.Errorf("looking whether the container of %s was ended: %w", primary.Name, err)
	}
	if !ended {
		result.violate("the container of %s wasn't ended within %.0f s: the liveness probe is to do that", primary.Name, fault.Hold.Seconds())
	}
	return nil
}

// checkMoves looks whether another member is the primary.
func checkMoves(result *Result) {
	if result.NewPrimary == result.OldPrimary {
		result.violate("%s is the primary again, and another member was to be", result.OldPrimary)
	}
}

// write starts a Writer and waits until it writes.
func (r *Runner) write(ctx context.Context) (*Writer, error) {
	address, err := r.Target.address(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := r.Target.secret(ctx)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := r.Target.get(ctx, r.Application, pod); err != nil {
		return nil, err
	}
	place, err := InNetworkOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	login := application(secret, address)
	login.First = r.Ledger.Next()
	w, err := StartWriter(login, append(place, r.Program)...)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(startLimit); len(w.Acknowledged()) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("the writer writes nothing: %v", kinds(w.Failures(time.Time{}))), w.Stop())
		}
	}
	return w, nil
}

// checkStays looks for other primaries than the old one.
func checkStays(seen Sightings, logs *Logs, result *Result) {
	pod := seen.otherThan(result.OldPrimary)
	if pod == "" {
		return
	}
	why := ""
	if said := logs.demotion(result.OldPrimary); said != "" {
		why = ", which says: " + said
	}
	result.violate("%s became primary, and %s was to stay%s", pod, result.OldPrimary, why)
}

// checkPolls says where the Poller saw too little to tell that there were never two primaries.
func checkPolls(seen Sightings, result *Result) {
	result.Polls, result.Failed, result.Blind = seen.Polls, seen.Failed, seen.Blind.Milliseconds()
	if seen.Polls == 0 || seen.Blind > blindLimit {
		result.violate("nobody looked at the Service for %.1f s in which its endpoints may have changed: %d polls, %d failed", seen.Blind.Seconds(), seen.Polls, seen.Failed)
	}
}

// Await waits until the Database has settled.
func (r *Runner) Await(ctx context.Context) error {
	_, err := r.await(ctx, time.Now(), func() error { return nil })
	return err
}

// awaitAfter waits until it has and rows are acknowledged again, for some time at least, and returns since when that is so.
func (r *Runner) awaitAfter(ctx context.Context, w *Writer, injected time.Time, least time.Duration) (time.Time, error) {
	return r.await(ctx, injected.Add(least), func() error {
		acks := w.Acknowledged()
		if last := acks[len(acks)-1].At; last.Before(injected) || time.Since(last) > settledFor {
			return fmt.Errorf("the last row was acknowledged %.1f s ago", time.Since(last).Seconds())
		}
		return nil
	})
}

// await doesn't return before the time that is given.
func (r *Runner) await(ctx context.Context, least time.Time, also func() error) (since time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, RecoveryLimit)
	defer cancel()
	since = time.Now()
	var last error
	for {
		err := r.Target.Settled(ctx)
		if err == nil {
			err = also()
		}
		switch {
		case ctx.Err() != nil && last != nil:
			return since, fmt.Errorf("it isn't as it should be: %w", last)
		case ctx.Err() != nil:
			return since, ctx.Err()
		case err != nil:
			since, last = time.Now(), err
		case time.Since(since) > settledFor && time.Now().After(least):
			return since, nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// conclude counts what the application and the Poller saw since the fault, and compares the rows. It ends the Writer.
func (r *Runner) conclude(ctx context.Context, w *Writer, seen Sightings, since time.Time, result *Result) error {
	until := time.Now() // the Poller has just been stopped
	err := w.Stop()
	acks := w.Acknowledged()
	r.Ledger.Add(acks)
	failures := w.Failures(since)
	result.Written = len(acks)
	result.Unknown = unknown(w.Failures(time.Time{}))
	result.Errors = kinds(failures)
	result.Outage = w.LongestGap(since).Milliseconds()
	result.Gaps = gaps(acks, since)
	result.NoPrimary, result.Double, result.Primaries = seen.None, len(seen.Several), seen.tell(since)
	result.Unready = seen.longestWithout(since, until).Milliseconds()
	if len(seen.Several) > 0 {
		first := seen.Several[0]
		result.violate("two primaries were ready, first %.1f s after the fault and %d times in all: %v, when the members said: %s; the ready ones were %s",
			first.At.Sub(since).Seconds(), len(seen.Several), first.Pods, seen.Said, result.Primaries)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), compareLimit)
	defer cancel()
	missing, failed := r.Target.Missing(ctx, r.Ledger)
	if failed != nil {
		return errors.Join(err, fmt.Errorf("comparing the rows: %w", failed))
	}
	result.Compared = true
	lost := map[int64]bool{}
	for _, ids := range missing {
		for _, id := range ids {
			lost[id] = true
		}
		r.Ledger.Forget(ids)
	}
	result.Lost = len(lost)
	for pod, ids := range missing {
		if result.Durability == string(databasev1.DurabilityAsync) {
			continue // as it says itself
		}
		result.violate("%s has no row for %d that were acknowledged, from %d to %d", pod, len(ids), ids[0], ids[len(ids)-1])
	}
	return err
}

// tell lists who was ready when.
func (s Sightings) tell(since time.Time) string {
	var changes []string
	for _, change := range s.Changes {
		changes = append(changes, fmt.Sprintf("%+.1f s %v", change.At.Sub(since).Seconds(), change.Pods))
	}
	return strings.Join(changes, ", ")
}

func kinds(failures []Failure) map[string]int {
	counted := map[string]int{}
	for _, f := range failures {
		counted[f.Kind]++
	}
	return counted
}

func unknown(failures []Failure) int {
	return len(slices.DeleteFunc(failures, func(f Failure) bool { return f.ID == 0 }))
}
