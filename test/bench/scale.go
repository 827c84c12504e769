package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres"
)

const (
	// scaleLimit is limit for phases with very many Databases.
	scaleLimit = 15 * time.Minute
	// scaled is the prefix of their names.
	scaled = "s"
	// together is how many roles and databases are put into the catalogs in one transaction.
	together = 250
)

// scale is what was measured with very many Databases.
type scale struct {
	// Steps are by number. First is the first look at those that were new: it sets passwords and applies Secrets.
	Steps []scaleStep
	// Omitted are the numbers for which there was no time.
	Omitted []int
	// Alone and Beside are new Databases, one after another, while nothing else goes on and while all others are
	// looked at again, LooksPerSecond of them.
	Alone, Beside  burst
	LooksPerSecond float64
}

type scaleStep struct {
	First   burst
	Restart restart
}

// measureScale fills the catalogs of a server of its own with roles and databases that have no files, since 10,000
// real databases would need 75 GB. To the program, which reads the catalogs only, they look like real ones.
func measureScale(ctx context.Context, w *world) (*scale, error) {
	if len(w.options.scale) == 0 || !w.fits(time.Minute) {
		progress("no time for %v Databases", w.options.scale)
		return nil, nil
	}
	// The autovacuum would try to enter them.
	d, err := w.startPostgres(ctx, map[string]string{"autovacuum": "off"})
	if err != nil {
		return nil, err
	}
	s, have, took := &scale{}, 0, time.Duration(0)
	for _, n := range w.options.scale {
		if have > 0 && !w.fits(took*time.Duration((n-have)/have+1)) {
			s.Omitted = append(s.Omitted, n)
			continue
		}
		began := time.Now()
		step, err := w.grow(ctx, d, have, n)
		if err != nil {
			return s, fmt.Errorf("%d Databases: %w", n, err)
		}
		s.Steps, have, took = append(s.Steps, step), n, time.Since(began)
	}
	return s, w.contend(ctx, d, s, have)
}

// grow makes n Databases of those that are there, lets the program see the new ones, and restarts it.
func (w *world) grow(ctx context.Context, d *database, have, n int) (scaleStep, error) {
	var step scaleStep
	fresh := names(scaled, n)[have:]
	progress("%d Databases: making them", n)
	if err := w.objects.create(ctx, fresh); err != nil {
		return step, err
	}
	if err := w.fill(ctx, d, fresh); err != nil {
		return step, err
	}
	progress("%d Databases: first look", n)
	m, err := w.beginStart(d, never)
	if err != nil {
		return step, err
	}
	what := fmt.Sprintf("%d Databases becoming Ready", len(fresh))
	if err := w.until(ctx, scaleLimit, what, w.objects.allReady(fresh)); err != nil {
		return step, err
	}
	step.First.Timing = w.objects.readiness(fresh, m.controller.started)
	if step.First.Cost, err = m.end(ctx); err != nil {
		return step, err
	}
	if err := m.controller.stop(); err != nil {
		return step, err
	}
	progress("%d Databases: restart", n)
	var c *controller
	if step.Restart, c, err = w.restart(ctx, d, never, scaled, n); err != nil {
		return step, err
	}
	return step, c.stop()
}

// contend measures new Databases alone, then beside a resync of all others, then alone again, as the machine may have
// become slower or faster meanwhile.
func (w *world) contend(ctx context.Context, d *database, s *scale, n int) error {
	progress("%d Databases: a new one alone", n)
	alone := append(names("n", singles), names("o", singles)...)
	_, c, err := w.restart(ctx, d, never, scaled, n)
	if err != nil {
		return err
	}
	if s.Alone, err = w.oneByOne(ctx, d, c, alone[:singles]); err != nil {
		return err
	}
	if err := c.stop(); err != nil {
		return err
	}
	progress("%d Databases: a new one beside a resync", n)
	if _, c, err = w.restart(ctx, d, often, scaled, n); err != nil {
		return err
	}
	d.proxy.reset()
	// A quarter of them again: the resync is in full swing.
	if err := w.until(ctx, limit, "the beginning of a resync", d.lookedAt(scaled, n/4+1)); err != nil {
		return err
	}
	looks, began := d.proxy.looks(), time.Now()
	if s.Beside, err = w.oneByOne(ctx, d, c, names("m", singles)); err != nil {
		return err
	}
	s.LooksPerSecond = float64(d.proxy.looks()-looks) / time.Since(began).Seconds()
	if err := c.stop(); err != nil {
		return err
	}
	progress("%d Databases: a new one alone, again", n)
	if _, c, err = w.restart(ctx, d, never, scaled, n); err != nil {
		return err
	}
	if _, err = w.oneByOne(ctx, d, c, alone[singles:]); err != nil {
		return err
	}
	s.Alone.Timing = w.objects.creation(alone) // its total isn't one: there is a restart in it
	return c.stop()
}

// fill writes roles with their claims, and databases that they own, into the server's catalogs.
func (w *world) fill(ctx context.Context, d *database, names []string) error {
	conn, err := pgx.Connect(ctx, d.SuperuserDSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	cluster, err := clusterID(ctx, w.client)
	if err != nil {
		return err
	}
	for len(names) > 0 {
		some := names[:min(together, len(names))]
		names = names[len(some):]
		var sql strings.Builder
		for _, name := range some {
			id := pgx.Identifier{name}.Sanitize()
			claim := postgres.Claim{
				Cluster: cluster, Group: v1alpha1.GroupVersion.Group, Namespace: namespace, Name: name, UID: w.objects.uid(name),
			}
			fmt.Fprintf(&sql, "CREATE ROLE %s LOGIN; COMMENT ON ROLE %s IS '%s'; %s;", id, id, claim, ownGrant(id, d.Major()))
		}
		if _, err := conn.PgConn().Exec(ctx, sql.String()).ReadAll(); err != nil {
			return fmt.Errorf("making roles: %w", err)
		}
		if _, err := conn.Exec(ctx, catalogSQL, some); err != nil {
			return fmt.Errorf("making databases in the catalog: %w", err)
		}
	}
	return nil
}

// ownGrant is the membership that a weak admin has in a role that it made itself.
func ownGrant(role string, version int) string {
	if version >= 16 {
		return "GRANT " + role + " TO " + adminName + " WITH ADMIN TRUE, INHERIT FALSE, SET TRUE"
	}
	return "GRANT " + role + " TO " + adminName
}

// catalogSQL makes a row of pg_database for each role named, as the program leaves it: open, but not to everybody.
const catalogSQL = `
INSERT INTO pg_database
SELECT made.* FROM pg_database t, pg_roles r, LATERAL jsonb_populate_record(t, jsonb_build_object(
    'oid', (3000000000 + r.oid::bigint)::text, 'datname', r.rolname, 'datdba', r.oid::text,
    'datistemplate', false, 'datallowconn', true,
    'datacl', jsonb_build_array(format('%1$I=CTc/%1$I', r.rolname)))) made
WHERE t.datname = 'template0' AND r.rolname = ANY($1)`

// clusterID is by what claims know the cluster.
func clusterID(ctx context.Context, c client.Client) (string, error) {
	system := &corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)
	return string(system.UID), err
}
