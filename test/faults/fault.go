//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/databases/internal/launcher"
)

// Fault is a harm that can be done to a Database, to its primary unless it says otherwise.
type Fault struct {
	Name string
	// What is a line for people.
	What string
	// Hold is how long it lasts before it is made good, where it lasts; at least, where it Moves.
	Hold time.Duration
	// Watch is how long the Database is watched from the fault on at least, where that is longer than usual.
	Watch time.Duration
	// Stays says that the primary must stay the primary, and Moves that another member must be it afterwards.
	Stays, Moves bool
	// Ends says that the container must have been ended before the fault is made good.
	Ends bool
	// Target is how long writes should be out at most: a figure to compare with, and no limit.
	Target time.Duration
	// Aftermath is how long the Database is another one than before although nothing shows it.
	Aftermath time.Duration

	inject injection
}

// injection does a harm to a pod, the primary unless it says otherwise.
type injection func(ctx context.Context, t *Target, pod *corev1.Pod) (heal func(context.Context) error, err error)

// Harm is a fault that was done.
type Harm struct{ heal func(context.Context) error }

// Inject does it.
func (f Fault) Inject(ctx context.Context, t *Target, primary *corev1.Pod) (*Harm, error) {
	heal, err := f.inject(ctx, t, primary)
	if err != nil {
		err = fmt.Errorf("%s: %w", f.Name, err)
	}
	return &Harm{heal}, err
}

// Heal makes it good again, as far as that needs somebody.
func (h *Harm) Heal(ctx context.Context) error {
	if h.heal == nil {
		return nil
	}
	return h.heal(ctx)
}

// holdLong is longer than Patroni's ttl and what follows it.
const holdLong = 30 * time.Second

// holdMost is how long one lasts at most that is to bring another primary, and hasn't yet.
const holdMost = 90 * time.Second

// pastTTL is longer than Patroni's ttl: a failover that comes late has begun by then.
const pastTTL = 25 * time.Second

// pastProbe is longer than the liveness probe lets a hung engine be: Patroni calls itself alive for its ttl, and then the probe
// has to fail several times.
const pastProbe = time.Minute

// The targets: another member leads at once where the primary gives the lead back, and when its ttl has run out where it can't.
const (
	targetPlanned = 3 * time.Second
	targetProcess = 6 * time.Second
	targetNetwork = 25 * time.Second
)

// All are the faults that there are.
func All() []Fault {
	return []Fault{
		{Name: "switchover", What: "another primary is asked for, by patronictl", Target: targetPlanned, Moves: true, inject: switchover},
		{Name: "delete-pod", What: "the primary's pod is deleted", Target: targetProcess, Moves: true, inject: deletePod()},
		{Name: "force-delete-pod", What: "it is deleted without waiting for its end", Target: targetProcess, inject: deletePod("--grace-period=0", "--force")},
		{Name: "kill-postgres", What: "SIGKILL to PostgreSQL's first process", Target: targetProcess, inject: signals(syscall.SIGKILL, "PostgreSQL", isPostmaster)},
		{Name: "kill-patroni", What: "SIGKILL to Patroni", Watch: pastTTL, Target: targetProcess, inject: signals(syscall.SIGKILL, "Patroni", isPatroni)},
		{Name: "kill-container", What: "SIGKILL to the container's first process", Target: targetProcess, inject: signals(syscall.SIGKILL, "the launcher", isLauncher)},
		{Name: "stop-patroni", What: "SIGSTOP to Patroni: it hangs, PostgreSQL goes on", Hold: holdLong, Target: targetProcess, inject: signals(syscall.SIGSTOP, "Patroni", isPatroni)},
		{Name: "stop-postgres", What: "SIGSTOP to all of PostgreSQL: it hangs", Hold: pastProbe, Ends: true, Target: targetNetwork, inject: stopPostgres},
		{Name: "cut-off", What: "no packets between the primary and the API server and the other members; clients still reach it", Hold: holdLong, Moves: true, Target: targetNetwork, inject: cutFrom(true, true)},
		{Name: "cut-members", What: "no packets between the primary and the other members", Hold: holdLong, Stays: true, Target: targetNetwork, inject: cutFrom(false, true)},
		{Name: "cut-standby", What: "no packets between the synchronous standby and the API server and the other members", Hold: holdLong, Stays: true, Target: targetNetwork, inject: onStandby(cutFrom(true, true))},
		{Name: "delete-standby", What: "the synchronous standby's pod is deleted", Stays: true, Target: targetNetwork, inject: onStandby(deletePod("--grace-period=0", "--force"))},
		// For its ttl after a primary that leads by the members' word (Patroni's failsafe mode) has told them so for the last time,
		// they wait for it, whatever becomes of it. A fault in that time would be another fault than its name says. No other
		// fault leaves this behind: where the primary is cut off the members don't hear it, and else it reaches the API server.
		{Name: "cut-api", What: "no packets between the primary and the API server", Hold: holdLong, Stays: true, Target: targetNetwork, Aftermath: pastTTL, inject: cutFrom(true, false)},
	}
}

// Named are the faults of these names, separated by commas; all for none.
func Named(names string) ([]Fault, error) {
	if names == "" {
		return All(), nil
	}
	var chosen []Fault
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(All(), func(f Fault) bool { return f.Name == strings.TrimSpace(name) })
		if at < 0 {
			var known []string
			for _, f := range All() {
				known = append(known, f.Name)
			}
			return nil, fmt.Errorf("there is no fault %q, but %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, All()[at])
	}
	return chosen, nil
}

// onStandby does it to the synchronous standby: without one no write is acknowledged, until Patroni has found that out. Where
// none is to be synchronous, it does it to one that streams.
func onStandby(inject injection) injection {
	return func(ctx context.Context, t *Target, _ *corev1.Pod) (func(context.Context) error, error) {
		standby, err := t.standby(ctx)
		if err != nil {
			return nil, err
		}
		return inject(ctx, t, standby)
	}
}

func deletePod(arguments ...string) injection {
	return func(ctx context.Context, t *Target, pod *corev1.Pod) (func(context.Context) error, error) {
		_, err := t.Kubectl(ctx, append([]string{"delete", "pod", pod.Name, "--wait=false"}, arguments...)...)
		return nil, err
	}
}

func switchover(ctx context.Context, t *Target, primary *corev1.Pod) (func(context.Context) error, error) {
	output, err := t.Kubectl(ctx, "exec", primary.Name, "-c", "postgres", "--",
		"/patroni/databases-patroni", "ctl", "switchover", t.Name, "--leader", primary.Name, "--force")
	if err == nil && !strings.Contains(output, "uccessfully switched over") {
		err = fmt.Errorf("patronictl says %q", output)
	}
	return nil, err
}

// signals sends a signal to all processes of a kind; SIGKILL to the first of them only. Those that it stopped go on when it is
// made good.
func signals(signal syscall.Signal, what string, is func(process) bool) injection {
	return func(_ context.Context, _ *Target, pod *corev1.Pod) (func(context.Context) error, error) {
		found, err := find(pod.UID, what, is)
		if err != nil {
			return nil, err
		}
		if signal == syscall.SIGKILL {
			found = []process{first(found)}
		}
		if err := send(pod.UID, signal, found); err != nil {
			return nil, err
		}
		if signal != syscall.SIGSTOP {
			return nil, nil
		}
		return resume(pod.UID, found), nil
	}
}

// stopPostgres stops the postmaster first: after that no process is started that the search would miss.
func stopPostgres(ctx context.Context, _ *Target, pod *corev1.Pod) (func(context.Context) error, error) {
	found, err := find(pod.UID, "PostgreSQL", isPostmaster)
	if err != nil {
		return nil, err
	}
	postmaster := []process{first(found)}
	if err := send(pod.UID, syscall.SIGSTOP, postmaster); err != nil {
		return nil, err
	}
	all, err := find(pod.UID, "PostgreSQL", isPostgres)
	if err == nil {
		err = send(pod.UID, syscall.SIGSTOP, all)
	}
	if err != nil {
		return nil, errors.Join(err, resume(pod.UID, append(all, postmaster...))(ctx))
	}
	return resume(pod.UID, all), nil
}

// send sends a signal to processes of a pod, of which one at least must get it: some of PostgreSQL's come and go.
func send(pod types.UID, signal syscall.Signal, to []process) error {
	sent := 0
	for _, p := range to {
		switch err := p.signal(pod, signal); {
		case err == nil:
			sent++
		case !errors.Is(err, errGone):
			return err
		}
	}
	if sent == 0 {
		return errGone
	}
	return nil
}

// resume lets processes of a pod go on that were stopped.
func resume(pod types.UID, stopped []process) func(context.Context) error {
	return func(context.Context) error {
		for _, p := range stopped {
			if err := p.signal(pod, syscall.SIGCONT); err != nil && !errors.Is(err, errGone) {
				return err
			}
		}
		return nil
	}
}

func cutFrom(api, members bool) injection {
	return func(ctx context.Context, t *Target, pod *corev1.Pod) (func(context.Context) error, error) {
		var peers []peer
		if api {
			found, err := t.apiPeers(ctx)
			if err != nil {
				return nil, err
			}
			peers = found
		}
		if members {
			pods, err := t.pods(ctx)
			if err != nil {
				return nil, err
			}
			for i := range pods {
				if pods[i].UID != pod.UID {
					peers = append(peers, peer{pods[i].Status.PodIP, launcher.PortREST})
				}
			}
		}
		if len(peers) == 0 || slices.ContainsFunc(peers, func(p peer) bool { return p.address == "" }) {
			return nil, fmt.Errorf("the addresses to cut it from are %q", peers)
		}
		n, err := networkOf(ctx, pod)
		if err != nil {
			return nil, err
		}
		return n.cutAndLook(ctx, peers)
	}
}
