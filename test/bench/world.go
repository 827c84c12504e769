package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

// programName is the built program's name and the beginning of its user agent, which the audit log tells it by.
const programName = "databases"

// namespace is where all Databases are.
const namespace = "bench"

// world is what the measurements run in.
type world struct {
	options options
	began   time.Time
	share   share
	dir     string
	program string
	audit   *auditLog
	env     *testenv.Environment
	client  client.WithWatch
	main    *database
	objects *objects
	// current is the program as it runs now or ran last.
	current *controller
	closers []func() error
}

// database is a PostgreSQL server with a weak admin, whom the program and the bare loop are, each behind a proxy.
type database struct {
	*postgrestest.Server
	proxy, bareProxy *proxy
	// dsnFile holds the admin's DSN through proxy; bareDSN is through bareProxy.
	dsnFile, bareDSN string
}

// adminName is the weak admin's role.
const adminName = "admin"

func newWorld(ctx context.Context, o options) (_ *world, err error) {
	w := &world{options: o, began: time.Now(), share: shareNow()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "databases-bench-"); err != nil {
		return nil, err
	}
	w.atEnd(func() error { return os.RemoveAll(w.dir) })
	if err := w.build(ctx); err != nil {
		return nil, err
	}
	if err := w.startKubernetes(ctx); err != nil {
		return nil, err
	}
	w.main, err = w.startPostgres(ctx, nil)
	return w, err
}

func (w *world) atEnd(f func() error) { w.closers = append(w.closers, f) }

// close ends everything, the last started first.
func (w *world) close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	w.closers = nil
	return errors.Join(errs...)
}

// build builds the program as `make build` does.
func (w *world) build(ctx context.Context) error {
	progress("building the program")
	w.program = filepath.Join(w.dir, programName)
	arguments := []string{"build", "-tags", "grpcnotrace", "-trimpath", "-buildvcs=false", "-o", w.program}
	if w.options.profiles != "" {
		overlay, err := profiling(ctx, w.dir)
		if err != nil {
			return err
		}
		arguments = append(arguments, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(arguments, programPackage)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, output)
	}
	return nil
}

func (w *world) startKubernetes(ctx context.Context) error {
	progress("starting the control plane")
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	w.audit = &auditLog{file: filepath.Join(w.dir, "audit.log")}
	var err error
	if w.env, err = testenv.Start(ctx, testenv.WithAuditLog(w.audit.file), testenv.WithScheme(scheme)); err != nil {
		return err
	}
	w.atEnd(w.env.Stop)
	if w.client, err = client.NewWithWatch(w.env.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("making the namespace: %w", err)
	}
	if w.objects, err = watchObjects(ctx, w.client); err != nil {
		return err
	}
	w.atEnd(w.objects.close)
	return nil
}

// startPostgres starts a server that writes to disk as in production and has been in use: a new one makes and fills a
// WAL file for every two databases, where an old one has files to use again, which are kept by min_wal_size. Other
// settings than these are the server's own defaults.
func (w *world) startPostgres(ctx context.Context, more map[string]string) (*database, error) {
	progress("starting PostgreSQL %d", w.options.major)
	settings := map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "100",
		"shared_buffers": "128MB", "max_prepared_transactions": "0", "min_wal_size": "1GB",
	}
	for name, value := range more {
		settings[name] = value
	}
	server, err := postgrestest.Launch(ctx, postgrestest.Options{Major: w.options.major, Settings: settings, Dir: w.options.dir})
	if err != nil {
		return nil, err
	}
	w.atEnd(server.Close)
	direct, err := server.WeakAdmin(ctx, adminName)
	if err != nil {
		return nil, err
	}
	d := &database{Server: server, dsnFile: filepath.Join(w.dir, fmt.Sprintf("dsn-%d", server.Port()))}
	if d.bareProxy, d.bareDSN, err = w.startProxy(ctx, direct); err != nil {
		return nil, err
	}
	var dsn string
	if d.proxy, dsn, err = w.startProxy(ctx, direct); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.dsnFile, []byte(dsn), 0o600); err != nil {
		return nil, err
	}
	progress("using PostgreSQL %d for a while", w.options.major)
	_, err = measureFloor(ctx, d, "warm", 4, warming)
	return d, err
}

// warming is how many databases a new server makes and drops before it is measured: they fill as many WAL files as it
// keeps.
const warming = 150

// startProxy starts a proxy for the server of a DSN, and returns the DSN through it.
func (w *world) startProxy(ctx context.Context, direct string) (*proxy, string, error) {
	dsn, err := url.Parse(direct)
	if err != nil {
		return nil, "", err
	}
	p, err := newProxy(ctx, dsn.Host)
	if err != nil {
		return nil, "", err
	}
	w.atEnd(p.close)
	dsn.Host = p.address()
	return p, dsn.String(), nil
}

// until polls a condition until it holds. The program's end, ctx's end and the deadline are errors; none of them is
// near where all goes well.
func (w *world) until(ctx context.Context, limit time.Duration, what string, holds func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for {
		ok, err := holds()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case ok:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s: not within %s", what, limit)
		}
		var ended <-chan struct{}
		if w.current != nil {
			ended = w.current.ended
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return errors.Join(fmt.Errorf("%s: the program ended", what), w.current.err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// pause waits for d, less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// lastLog is the end of what the program logged last.
func (w *world) lastLog() string {
	if w.current == nil {
		return ""
	}
	text, err := os.ReadFile(w.current.log)
	if err != nil {
		return ""
	}
	const tail = 3000
	return "the program's log ends with:\n" + string(text[max(0, len(text)-tail):])
}
