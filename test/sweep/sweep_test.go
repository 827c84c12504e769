package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

// world is what all runs share.
var world struct {
	env     *testenv.Environment
	server  *postgrestest.Server
	dsnFile string
}

func TestMain(m *testing.M) {
	if value := os.Getenv(childVariable); value != "" {
		os.Exit(runChild(value))
	}
	os.Exit(main(m))
}

func main(m *testing.M) int {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	var err error
	if world.server, err = postgrestest.Launch(ctx, postgrestest.Options{Major: 17, Settings: map[string]string{"log_statement": "all"}}); err != nil {
		return fail(err)
	}
	defer world.server.Close()
	dsn, err := world.server.WeakAdmin(ctx, "weak_admin")
	if err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "sweep")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	world.dsnFile = filepath.Join(dir, "dsn")
	if err := os.WriteFile(world.dsnFile, []byte(dsn), 0o600); err != nil {
		return fail(err)
	}
	if world.env, err = testenv.Start(ctx, testenv.WithScheme(scheme)); err != nil {
		return fail(err)
	}
	defer func() { _ = world.env.Stop() }()
	return m.Run()
}

// scenario is one thing that happens to a Database, and what must come of it whatever fails meanwhile.
type scenario struct {
	name string
	// prepare runs while a controller without a fault does; act while none runs.
	prepare, act func(context.Context, *run) error
	// crashed runs once a killed controller is dead, before the next one starts.
	crashed func(context.Context, *run) error
	// check is polled until it passes.
	check func(context.Context, *run) error
}

var scenarios = []scenario{
	{
		name:  "create",
		act:   func(ctx context.Context, r *run) error { return r.create(ctx, v1alpha1.DeletionPolicyRetain) },
		check: func(ctx context.Context, r *run) error { return r.ready(ctx) },
	},
	{
		name:    "rotate",
		prepare: createAndWait(v1alpha1.DeletionPolicyRetain),
		act: func(ctx context.Context, r *run) error {
			secret, err := r.secret(ctx)
			if err != nil {
				return err
			}
			r.password = string(secret.Data["password"])
			return r.client.Delete(ctx, secret)
		},
		check: func(ctx context.Context, r *run) error {
			if err := r.ready(ctx); err != nil {
				return err
			}
			secret, err := r.secret(ctx)
			if err != nil {
				return err
			}
			if string(secret.Data["password"]) == r.password {
				return errors.New("the old password came back")
			}
			old := world.server.DSN(r.specName(), r.password, r.specName())
			if err := logIn(ctx, old); err == nil || err.Error() != "login refused: SQLSTATE 28P01" {
				return errors.Join(errors.New("the old password wasn't refused"), err)
			}
			return nil
		},
	},
	{
		name:    "delete with Delete",
		prepare: createAndWait(v1alpha1.DeletionPolicyDelete),
		act:     deleteDatabase,
		check:   nothingLeft,
	},
	{
		name:    "delete with Retain",
		prepare: createAndWait(v1alpha1.DeletionPolicyRetain),
		act: func(ctx context.Context, r *run) error {
			secret, err := r.secret(ctx)
			if err != nil {
				return err
			}
			r.password = string(secret.Data["password"])
			return deleteDatabase(ctx, r)
		},
		check: func(ctx context.Context, r *run) error {
			if err := r.gone(ctx); err != nil {
				return err
			}
			return logIn(ctx, world.server.DSN(r.specName(), r.password, r.specName()))
		},
	},
	{
		name:    "create, deleted while the controller is dead",
		act:     func(ctx context.Context, r *run) error { return r.create(ctx, v1alpha1.DeletionPolicyDelete) },
		crashed: deleteDatabase,
		check: func(ctx context.Context, r *run) error {
			if r.config.Action != fault.Kill { // then it was never dead
				return r.ready(ctx)
			}
			return nothingLeft(ctx, r)
		},
	},
}

func createAndWait(policy v1alpha1.DeletionPolicy) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := r.create(ctx, policy); err != nil {
			return err
		}
		return until(ctx, patience, func() error { return r.ready(ctx) })
	}
}

func deleteDatabase(ctx context.Context, r *run) error {
	db := &v1alpha1.Database{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: databaseName}, db); err != nil {
		return err
	}
	return r.client.Delete(ctx, db)
}

func nothingLeft(ctx context.Context, r *run) error {
	if err := r.gone(ctx); err != nil {
		return err
	}
	role, database, err := r.inPostgres(ctx)
	if err == nil && (role || database) {
		err = fmt.Errorf("orphaned in PostgreSQL: role %v, database %v", role, database)
	}
	return err
}

// perform is one run from beginning to end. A point whose call is 0 makes it a counting run, which returns the points.
func perform(ctx context.Context, dir, binary string, p point, converge time.Duration) ([]string, error) {
	s, at, action := p.scenario, p.at, p.action
	r, err := newRun(ctx, dir, binary, childConfig{
		Kubeconfig: world.env.Kubeconfig, DSNFile: world.dsnFile, Host: world.server.Host(), Port: world.server.Port(), At: at, Action: action,
	}, converge)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.stop(false) }()
	if s.prepare != nil {
		if err := prepare(ctx, r, s); err != nil {
			return nil, fmt.Errorf("prepare: %w", err)
		}
	}
	if err := s.act(ctx, r); err != nil {
		return nil, fmt.Errorf("act: %w", err)
	}
	if err := r.start(action); err != nil {
		return nil, err
	}
	if action == fault.Kill {
		if err := r.stop(true); err != nil {
			return nil, fmt.Errorf("waiting for the controller's death: %w", err)
		}
		if s.crashed != nil {
			if err := s.crashed(ctx, r); err != nil {
				return nil, fmt.Errorf("while it is dead: %w", err)
			}
		}
		if err := r.start(fault.None); err != nil {
			return nil, err
		}
	}
	if err := until(ctx, r.converge, func() error { return s.check(ctx, r) }); err != nil {
		return nil, err
	}
	// What was right must stay right, and a controller that hasn't begun can't do anything wrong.
	if err := until(ctx, patience, r.working); err != nil {
		return nil, errors.Join(err, r.stop(false))
	}
	time.Sleep(500 * time.Millisecond)
	if err := errors.Join(s.check(ctx, r), r.leaked(ctx), r.stop(false)); err != nil {
		return nil, fmt.Errorf("afterwards: %w", err)
	}
	points, err := r.points()
	if err == nil && len(points) < at {
		err = fmt.Errorf("only %d calls were made, so that nothing was spoiled", len(points))
	}
	return points, err
}

func prepare(ctx context.Context, r *run, s scenario) error {
	config := r.config
	r.config.At, r.config.PointsFile = 1, os.DevNull // counts nothing
	if err := r.start(fault.None); err != nil {
		return err
	}
	if err := s.prepare(ctx, r); err != nil {
		return err
	}
	err := r.stop(false)
	r.config = config
	return err
}

// point is one call of one scenario, spoiled in one way.
type point struct {
	scenario scenario
	at       int
	name     string
	action   fault.Action
}

func (p point) String() string {
	return fmt.Sprintf("%s, call %d (%s), %s", p.scenario.name, p.at, p.name, p.action)
}

// sweep runs every point of the scenarios, a few at a time, and returns what failed. converge holds for the points alone:
// the run without a fault must succeed, however slow the machine is.
func sweep(t *testing.T, binary string, converge time.Duration, scenarios []scenario, actions ...fault.Action) (points int, failures []string) {
	t.Helper()
	dir := t.TempDir()
	var all []point
	for _, s := range scenarios {
		names, err := perform(t.Context(), dir, binary, point{scenario: s, action: fault.None}, patience)
		if err != nil {
			t.Fatalf("%s without any fault: %v", s.name, err)
		}
		t.Logf("%s: %d calls: %s", s.name, len(names), strings.Join(names, ", "))
		for n, name := range names {
			for _, action := range actions {
				_, operation, _ := strings.Cut(name, " ")
				all = append(all, point{s, n + 1, operation, action})
			}
		}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	limit := make(chan struct{}, 4)
	for _, p := range all {
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			if _, err := perform(t.Context(), dir, binary, p, converge); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, fmt.Sprintf("%s: %v", p, err))
			}
		})
	}
	group.Wait()
	return len(all), failures
}

func TestCrashSweep(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	points, failures := sweep(t, binary, patience, scenarios, fault.Before, fault.After, fault.Kill)
	fmt.Printf("crash sweep: %d points, %d failures\n", points, len(failures))
	for _, failure := range failures {
		t.Error(failure)
	}
	if points < 60 {
		t.Errorf("only %d points: calls are missing", points)
	}
	log, err := world.server.Log()
	if err != nil || !strings.Contains(log, "CREATE ROLE") || passwordLike.MatchString(log) {
		t.Errorf("PostgreSQL's log misses the statements or has a password (error %v)", err)
	}
	// PostgreSQL sees only after a moment that a client has ended.
	err = until(t.Context(), patience, func() error {
		rows, err := world.server.Query(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'databases-controller'")
		if err == nil && rows[0][0] != "0" {
			err = errors.New("connections left behind: " + rows[0][0])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestBrokenOrderIsCaught builds the controller with the finalizer written after the SQL instead of before.
func TestBrokenOrderIsCaught(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "broken")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags=brokenorder", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// What is orphaned is so from the beginning: waiting longer for it to go changes nothing.
	points, failures := sweep(t, binary, 5*time.Second, scenarios[len(scenarios)-1:], fault.Kill)
	fmt.Printf("crash sweep of a broken order: %d points, %d caught\n", points, len(failures))
	if !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, "orphaned in PostgreSQL") }) {
		t.Errorf("the sweep didn't notice that the finalizer comes after the SQL: %q", failures)
	}
}
