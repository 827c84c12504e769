package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/testenv"
)

// patience is how long a test waits for what should come soon.
const patience = time.Minute

// run is one Database with one controller and at most one fault.
type run struct {
	client    client.Client
	namespace string
	binary    string
	config    childConfig
	dir       string
	// converge is how long it may take, once nothing disturbs it any more, to come to what the scenario requires.
	converge time.Duration

	stderr testenv.Buffer
	// began is where the running controller's part of stderr begins.
	began   int
	child   *exec.Cmd
	waiting chan error
	// password was the Secret's before the fault.
	password string
}

const databaseName = "orders"

// specName is the name in PostgreSQL: the namespace makes it the run's own.
func (r *run) specName() string { return "s_" + strings.ReplaceAll(r.namespace, "-", "_") }

func newRun(ctx context.Context, dir, binary string, config childConfig, converge time.Duration) (*run, error) {
	r := &run{client: world.env.Client(), binary: binary, dir: dir, config: config, converge: converge}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "sweep-"}}
	if err := r.client.Create(ctx, namespace); err != nil {
		return nil, err
	}
	r.namespace = namespace.Name
	r.config.Namespace = namespace.Name
	r.config.PointsFile = filepath.Join(dir, namespace.Name+".points")
	return r, nil
}

func (r *run) create(ctx context.Context, policy v1alpha1.DeletionPolicy) error {
	return r.client.Create(ctx, &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: databaseName},
		Spec:       v1alpha1.DatabaseSpec{Name: r.specName(), DeletionPolicy: policy},
	})
}

// start starts the controller with the run's fault, or without one.
func (r *run) start(action fault.Action) error {
	config := r.config
	config.Action = action
	if action == fault.None {
		config.PointsFile = os.DevNull
	}
	if r.config.At == 0 {
		config.PointsFile = r.config.PointsFile
	}
	value, err := json.Marshal(config)
	if err != nil {
		return err
	}
	r.child = exec.Command(r.binary)
	r.child.Env = append(os.Environ(), childVariable+"="+string(value))
	r.child.Stderr, r.began = &r.stderr, len(r.stderr.String())
	if err := r.child.Start(); err != nil {
		return err
	}
	child, waiting := r.child, make(chan error, 1)
	r.waiting = waiting
	go func() { waiting <- child.Wait() }()
	return nil
}

// working fails until each of the controllers has begun to look at what there is.
func (r *run) working() error {
	const controllers = 3
	if log := r.log(); strings.Count(log, `"msg":"Starting workers"`) != controllers {
		return errors.New("the controller hasn't started")
	}
	return nil
}

// log is what the running controller, or the last one, has written.
func (r *run) log() string { return r.stderr.String()[r.began:] }

// stop ends the controller; killed says that it was to end by its fault.
func (r *run) stop(killed bool) error {
	if r.child == nil {
		return nil
	}
	if !killed {
		_ = r.child.Process.Signal(syscall.SIGTERM)
	}
	select {
	case err := <-r.waiting:
		r.child = nil
		var exit *exec.ExitError
		if killed && errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
			return nil
		}
		if err != nil {
			err = fmt.Errorf("the controller ended with %w: %s", err, lastLines(r.log(), 5))
		}
		return err
	case <-time.After(patience):
		_ = r.child.Process.Kill()
		err := <-r.waiting
		r.child = nil
		return errors.Join(errors.New("the controller did not end"), err)
	}
}

func lastLines(text string, number int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-number):], "\n")
}

func (r *run) points() ([]string, error) {
	content, err := os.ReadFile(r.config.PointsFile)
	return strings.Split(strings.TrimSpace(string(content)), "\n"), err
}

// until polls a condition; the last failure is the error.
func until(ctx context.Context, within time.Duration, check func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *run) ready(ctx context.Context) error {
	db := &v1alpha1.Database{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: databaseName}, db); err != nil {
		return err
	}
	if !apimeta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionReady) {
		return fmt.Errorf("not Ready: %+v", db.Status.Conditions)
	}
	secret, err := r.secret(ctx)
	switch {
	case err != nil:
		return err
	case secret == nil:
		return errors.New("there is no Secret")
	case db.Status.SecretVersion != string(secret.UID)+"/"+secret.ResourceVersion:
		return errors.New("the status speaks of another Secret")
	case len(db.Finalizers) != 1:
		return fmt.Errorf("finalizers %v", db.Finalizers)
	}
	return logIn(ctx, string(secret.Data["uri"]))
}

func (r *run) secret(ctx context.Context) (*corev1.Secret, error) {
	var list corev1.SecretList
	if err := r.client.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 0:
		return nil, nil
	case 1:
		return &list.Items[0], nil
	}
	return nil, fmt.Errorf("%d Secrets", len(list.Items))
}

func (r *run) gone(ctx context.Context) error {
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: databaseName}, &v1alpha1.Database{})
	if !apierrors.IsNotFound(err) {
		return errors.Join(errors.New("the Database is still there"), err)
	}
	if secret, err := r.secret(ctx); err != nil || secret != nil {
		return errors.Join(errors.New("the Secret is still there"), err)
	}
	return nil
}

// inPostgres reports whether the role and the database are there.
func (r *run) inPostgres(ctx context.Context) (role, database bool, err error) {
	rows, err := world.server.Query(ctx, fmt.Sprintf(`SELECT (SELECT count(*) FROM pg_roles WHERE rolname = '%[1]s'),
		(SELECT count(*) FROM pg_database WHERE datname = '%[1]s')`, r.specName()))
	if err != nil {
		return false, false, err
	}
	return rows[0][0] == "1", rows[0][1] == "1", nil
}

func logIn(ctx context.Context, uri string) error {
	conn, err := pgx.Connect(ctx, uri)
	if err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			return fmt.Errorf("login refused: SQLSTATE %s", pg.Code)
		}
		return errors.New("login failed")
	}
	return conn.Close(ctx)
}

// passwordLike is what crypto/rand.Text makes: nothing else in a log looks like it, so that also passwords that were
// made and never kept are found.
var passwordLike = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)

// leaked reports a password in anything that the run left for others to read.
func (r *run) leaked(ctx context.Context) error {
	if passwordLike.MatchString(r.stderr.String()) {
		return errors.New("a password is in the controller's log")
	}
	var events eventsv1.EventList
	var databases v1alpha1.DatabaseList
	if err := errors.Join(r.client.List(ctx, &events, client.InNamespace(r.namespace)), r.client.List(ctx, &databases, client.InNamespace(r.namespace))); err != nil {
		return err
	}
	if passwordLike.MatchString(fmt.Sprint(events.Items, databases.Items)) {
		return errors.New("a password is in an event or a status")
	}
	return nil
}
