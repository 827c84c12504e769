//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
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

// The flags of TestChaos; `make chaos` gives them.
var (
	chaosRounds     = flag.Int("chaos.rounds", 0, "how often TestChaos does each fault; 0 leaves it out")
	chaosSeed       = flag.Uint64("chaos.seed", 0, "what the order of the faults is made from; 0 for any")
	chaosParallel   = flag.Int("chaos.parallel", 1, "how many Databases have faults at once")
	chaosFaults     = flag.String("chaos.faults", "", "the faults, separated by commas; all by default")
	chaosDurability = flag.String("chaos.durability", string(databasev1.DurabilitySync), "the Databases' durability")
	chaosReport     = flag.String("chaos.report", "", "the file for the report; the logs of bad rounds are beside it")
	chaosLogs       = flag.Bool("chaos.logs", false, "keep the logs of all rounds")
)

// chaos is a run: a queue of faults, and lanes with a Database each that take from it.
type chaos struct {
	*world
	report     *faults.Report
	file       string
	durability databasev1.Durability

	mu    sync.Mutex
	queue []faults.Fault
	done  int
	total int
}

// TestChaos does each fault many times, in any order, to Databases with three replicas. It goes on after what must not be, and
// fails at its end.
func TestChaos(t *testing.T) {
	if *chaosRounds == 0 {
		return // make chaos runs it, for hours if it is to
	}
	c := newChaos(t)
	c.start()
	c.clientPod()
	var lanes sync.WaitGroup
	for i := range *chaosParallel {
		lanes.Go(func() { c.lane(i) })
	}
	lanes.Wait()
	for _, result := range c.report.Bad() {
		t.Errorf("round %d: %s\n%s\n%s", result.Number, result.Line(), strings.Join(result.Violations, "\n"), result.Trouble)
	}
	if c.done != c.total {
		t.Errorf("%d of %d rounds were run", c.done, c.total)
	}
	fmt.Printf("\n%s\nseed %d; report: %s\n", c.report.Table(), c.report.Seed, c.file)
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	chosen, err := faults.Named(*chaosFaults)
	if err != nil {
		t.Fatal(err)
	}
	durability := databasev1.Durability(*chaosDurability)
	if durability != databasev1.DurabilitySync && durability != databasev1.DurabilityAsync {
		t.Fatalf("-chaos.durability %q is neither %s nor %s", durability, databasev1.DurabilitySync, databasev1.DurabilityAsync)
	}
	c := &chaos{
		world: newWorld(t), file: *chaosReport, durability: durability,
		report: &faults.Report{Seed: *chaosSeed, Durability: string(durability), Parallel: *chaosParallel, Began: time.Now()},
	}
	for c.report.Seed == 0 {
		c.report.Seed = rand.Uint64()
	}
	if c.file == "" {
		c.file = filepath.Join(os.TempDir(), fmt.Sprintf("chaos-%d.json", c.report.Seed))
	}
	if err := os.RemoveAll(c.logs()); err != nil { // of an earlier run with this report's name
		t.Fatal(err)
	}
	for range *chaosRounds {
		c.queue = append(c.queue, chosen...)
	}
	c.total = len(c.queue)
	order := rand.New(rand.NewPCG(c.report.Seed, 0))
	order.Shuffle(len(c.queue), func(i, j int) { c.queue[i], c.queue[j] = c.queue[j], c.queue[i] })
	fmt.Printf("      seed %d: %d rounds of %d faults, %d Databases at once, durability %s\n", c.report.Seed, *chaosRounds, len(chosen), *chaosParallel, durability)
	return c
}

// next is the next fault, and the number of its round.
func (c *chaos) next() (fault faults.Fault, number int, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return faults.Fault{}, 0, false
	}
	fault, c.queue = c.queue[0], c.queue[1:]
	c.done++
	return fault, c.done, true
}

// lane does one fault after the other to a Database, and to another one where that doesn't come back.
func (c *chaos) lane(lane int) {
	var runner *faults.Runner
	for made := 0; ; {
		fault, number, more := c.next()
		if !more {
			return
		}
		for fresh := 0; runner == nil; fresh++ {
			if fresh == 3 {
				c.Errorf("lane %d ends: three Databases one after the other didn't start", lane)
				return
			}
			made++
			runner = c.newDatabase(fmt.Sprintf("chaos-%d-%d", lane, made))
		}
		if !c.chaosRound(runner, fault, number) {
			c.leave(runner.Target.Name)
			runner = nil
		}
	}
}

// newDatabase makes a Database; nil where it doesn't start, which is as bad as a bad round.
func (c *chaos) newDatabase(name string) *faults.Runner {
	runner, err := c.newRunner(name)
	if err != nil {
		c.Error(err)
		return nil
	}
	folder := filepath.Join(c.logs(), "start-"+name)
	logs, err := faults.FollowLogs(c.Context(), testenv.Get(c).Config, runner.Target, folder)
	if err != nil {
		c.Error(err)
		return nil
	}
	said := len(c.log.String())
	failed := c.createThree(runner, c.durability)
	if failed != nil {
		c.Errorf("%s didn't start: %v", name, failed)
		fmt.Printf("%s BAD  %s didn't start: %v\n", time.Now().UTC().Format(time.TimeOnly), name, failed)
		c.explain(folder, c.log.String()[said:])
		c.leave(name)
		runner = nil
	}
	if err := logs.Stop(failed != nil || *chaosLogs); err != nil {
		c.Error(err)
	}
	return runner
}

// logs is the folder of the logs.
func (c *chaos) logs() string { return strings.TrimSuffix(c.file, ".json") + "-logs" }

// chaosRound does a round and says whether the Database can be used for more.
func (c *chaos) chaosRound(runner *faults.Runner, fault faults.Fault, number int) bool {
	folder := filepath.Join(c.logs(), fmt.Sprintf("%04d-%s", number, fault.Name))
	logs, err := faults.FollowLogs(c.Context(), testenv.Get(c).Config, runner.Target, folder)
	if err != nil {
		c.Error(err)
		return false
	}
	said := len(c.log.String())
	runner.Logs = logs
	result := runner.Run(c.Context(), fault)
	result.Number = number
	fmt.Printf("%s %4d/%d %s\n", time.Now().UTC().Format(time.TimeOnly), number, c.total, result.Line())
	keep := result.Bad() || *chaosLogs
	if keep {
		c.explain(folder, c.log.String()[said:])
	}
	if err := logs.Stop(keep); err != nil {
		c.Error(err)
	}
	if err := c.report.Add(result, c.file); err != nil {
		c.Error(err)
	}
	return result.Trouble == ""
}

// explain puts beside the pods' logs what else tells of a bad round: the controller's log of its time, and the objects.
func (c *chaos) explain(folder, log string) {
	objects, _ := c.tryKubectl("", "get", "pods,pgserver,configmaps,endpointslices,events", "-o", "yaml")
	for name, content := range map[string]string{"controller.log": log, "objects.yaml": objects} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			c.Error(err)
		}
	}
}

// leave deletes a Database that didn't come back.
func (c *chaos) leave(name string) {
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	if err := c.Delete(c.Context(), db); err != nil {
		c.Error(err)
	}
}
