//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
	"github.com/example/databases/test/faults"
)

// outageLimit is far above what any fault costs; the figures are in the report.
const outageLimit = 3 * time.Minute

// writerProgram is built once.
var writerProgram = sync.OnceValues(func() (string, error) {
	return faults.BuildWriter(context.Background(), filepath.Dir(auditLog))
})

// newRunner is for a Database that isn't there yet. The writer is in the network of the client's pod.
func (w *world) newRunner(name string) (*faults.Runner, error) {
	program, err := writerProgram()
	if err != nil {
		return nil, err
	}
	return &faults.Runner{
		Target: &faults.Target{
			Client: w.Client, Namespace: w.namespace, Name: name,
			Kubectl: func(_ context.Context, arguments ...string) (string, error) { return w.tryKubectl("", arguments...) },
		},
		Ledger: &faults.Ledger{}, Program: program, Application: "client",
	}, nil
}

// createThree creates a Runner's Database with three replicas and waits for it. It may be called from any goroutine.
func (w *world) createThree(runner *faults.Runner, durability databasev1.Durability) error {
	db := &databasev1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: runner.Target.Name},
		Spec: databasev1.DatabaseSpec{
			Image: "postgres:15", DatabaseName: "mydb", Username: "admin", Storage: databasev1.Storage{Size: "1Gi"},
			Replicas: 3, Durability: durability, DeletionPolicy: databasev1.DeletionPolicyDelete,
		},
	}
	if err := w.Create(w.Context(), db); err != nil {
		return err
	}
	return runner.Await(w.Context())
}

// threeReplicas creates a Database for faults and waits for it.
func (w *world) threeReplicas(name string, durability databasev1.Durability) (*faults.Runner, error) {
	runner, err := w.newRunner(name)
	if err != nil {
		return nil, err
	}
	return runner, w.createThree(runner, durability)
}

// usualFaults are those that users meet. `make chaos` does the others too.
const usualFaults = "delete-pod,kill-postgres,kill-patroni,stop-patroni,stop-postgres,cut-off,cut-api,cut-standby,switchover"

// TestFailover does the usual faults once each to Databases with three replicas while an application writes: no acknowledged
// row is lost, and there is never more than one primary to write to.
func TestFailover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.clientPod()
	usual, err := faults.Named(usualFaults)
	if err != nil {
		t.Fatal(err)
	}
	runners := make([]*faults.Runner, 2) // most of the time is waiting
	for i := range runners {
		if runners[i], err = w.threeReplicas(fmt.Sprintf("failover-%d", i), databasev1.DurabilitySync); err != nil {
			t.Fatal(err)
		}
	}
	report := &faults.Report{}
	var lanes sync.WaitGroup
	for lane, runner := range runners {
		lanes.Go(func() {
			for i, fault := range usual {
				if i%len(runners) == lane {
					t.Run(fault.Name, func(t *testing.T) { w.failOver(t, runner, fault, report) })
				}
			}
		})
	}
	lanes.Wait()
	fmt.Printf("\n%s\n", report.Table())
}

// round does a fault, prints a line and puts it into a report.
func (w *world) round(t *testing.T, runner *faults.Runner, fault faults.Fault, report *faults.Report) *faults.Result {
	t.Helper()
	result := w.watched(t, runner, fault)
	fmt.Println("     ", result.Line())
	if err := report.Add(result, ""); err != nil {
		t.Error(err)
	}
	return result
}

// watched does a fault and fails the case for what must not be. Only then the pods' logs are kept.
func (w *world) watched(t *testing.T, runner *faults.Runner, fault faults.Fault) *faults.Result {
	t.Helper()
	folder, err := os.MkdirTemp("", "failover-"+fault.Name+"-")
	if err != nil {
		t.Fatal(err)
	}
	logs, err := faults.FollowLogs(t.Context(), testenv.Get(t).Config, runner.Target, folder)
	if err != nil {
		t.Fatal(err)
	}
	runner.Logs = logs
	result := runner.Run(t.Context(), fault)
	if result.Bad() {
		pods, _ := w.tryKubectl("", "get", "pods", "-o", "wide", "--show-labels")
		t.Errorf("%s\n%s\n%s\nlogs: %s", strings.Join(result.Violations, "\n"), result.Trouble, pods, folder)
	}
	if err := logs.Stop(result.Bad()); err != nil {
		t.Error(err)
	}
	return result
}

func (w *world) failOver(t *testing.T, runner *faults.Runner, fault faults.Fault, report *faults.Report) {
	result := w.round(t, runner, fault, report)
	if result.Outage > outageLimit.Milliseconds() {
		t.Errorf("no row was acknowledged for %d ms", result.Outage)
	}
}

// TestFailoverAsync shows what Sync is for: without it, what a primary acknowledges while it is cut off is lost.
func TestFailoverAsync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.clientPod()
	runner, err := w.threeReplicas("async", databasev1.DurabilityAsync)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := faults.Named("cut-off")
	if err != nil {
		t.Fatal(err)
	}
	result := w.round(t, runner, cut[0], &faults.Report{})
	fmt.Printf("      with durability Async %d of %d acknowledged rows are lost\n", result.Lost, result.Written)
	if result.Lost == 0 {
		t.Error("nothing is lost: either Async waits for a standby, or the fault does nothing")
	}
}
