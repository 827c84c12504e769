//go:build e2e

package e2e

import (
	"strings"
	"testing"

	databasev1 "github.com/example/databases/api/database/v1"
)

func image(name string) func(*databasev1.Database) {
	return func(db *databasev1.Database) { db.Spec.Image = name }
}

// TestMajorVersion: the data of one major version goes on serving when the spec asks for another.
func TestMajorVersion(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("major")
	w.ready("major")
	pods := w.pods("major")
	w.change("major", image("postgres:17"))
	w.condition("major", databasev1.ConditionUpToDate, databasev1.ReasonMajorUpgradeRequired)
	db := w.ready("major")
	if got := w.sql("major", "SHOW server_version_num;"); !strings.HasPrefix(got, "15") || !same(pods, w.pods("major")) || db.Status.Image != "postgres:15" {
		t.Errorf("version %s, image %s, pods %v, before %v", got, db.Status.Image, pods, w.pods("major"))
	}
	w.change("major", image("postgres:15-next"))
	w.settled("major")
	if same(pods, w.pods("major")) {
		t.Error("an image of the same major version was not rolled out")
	}
	if got := w.sql("major", "SHOW server_version_num;"); !strings.HasPrefix(got, "15") {
		t.Errorf("version %s", got)
	}
}

// TestNewerServer: another major version from the beginning, whose locale doesn't change with the C library.
func TestNewerServer(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("newer", image("postgres:17"))
	if db := w.ready("newer"); !strings.HasPrefix(db.Status.Version, "17.") {
		t.Errorf("version %s", db.Status.Version)
	}
	if got := w.sql("newer", "SELECT datlocprovider, pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'mydb';", "SHOW data_checksums;"); got != "b|UTF8\non" {
		t.Errorf("psql prints %q", got)
	}
}

// TestOtherLayout: PostgreSQL 18's images have their volume elsewhere; a row must survive its pod.
func TestOtherLayout(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("layout", image("postgres:15-layout18"))
	w.ready("layout")
	w.sql("layout", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (18);")
	pods := w.pods("layout")
	w.kubectl("delete", "pod", "layout-0")
	w.eventually("there is another pod", func() bool { return len(w.pods("layout")) == 1 && !same(pods, w.pods("layout")) })
	w.eventually("the row is there", func() bool {
		got, err := w.trySQL("layout", "SELECT i FROM t;")
		return err == nil && got == "18"
	})
}

// TestCollation: an image that sorts otherwise isn't rolled out without consent, and nothing is refreshed blindly.
func TestCollation(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("sorted")
	w.ready("sorted")
	w.sql("sorted", "CREATE TABLE t (s text PRIMARY KEY);", "INSERT INTO t VALUES ('a'), ('B');")
	pods := w.pods("sorted")
	w.change("sorted", image("postgres:15-trixie"))
	db := w.condition("sorted", databasev1.ConditionUpToDate, databasev1.ReasonCollationMismatch)
	if !same(pods, w.pods("sorted")) || !db.Status.Ready {
		t.Errorf("ready %t, pods %v, before %v", db.Status.Ready, w.pods("sorted"), pods)
	}
	versions := "SELECT collversion FROM pg_collation WHERE collname = 'default' OR collversion IS NOT NULL ORDER BY 1 LIMIT 1;"
	before := w.sql("sorted", versions)
	w.change("sorted", func(db *databasev1.Database) {
		db.Annotations = map[string]string{databasev1.AcceptCollationAnnotation: "2.41"}
	})
	w.settled("sorted")
	if same(pods, w.pods("sorted")) {
		t.Error("the accepted image was not rolled out")
	}
	if got := w.sql("sorted", "SELECT string_agg(s, '' ORDER BY s) FROM t;"); got != "Ba" {
		t.Errorf("psql prints %q", got)
	}
	if got := w.sql("sorted", versions); got != before {
		t.Errorf("the collation's version was refreshed from %q to %q", before, got)
	}
}

// TestBadImage: each wrong image is said, and the right one then comes up without a hand.
func TestBadImage(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("bad", image("postgres:15-alpine"))
	if db := w.condition("bad", databasev1.ConditionReady, databasev1.ReasonUnsupportedImage); db.Status.Phase != databasev1.PhaseFailed {
		t.Errorf("phase %s", db.Status.Phase)
	}
	w.change("bad", image("nowhere.invalid/postgres:15"))
	w.condition("bad", databasev1.ConditionReady, databasev1.ReasonImagePullFailed)
	w.change("bad", image("postgres:15"))
	w.settled("bad")
	w.change("bad", image("nowhere.invalid/postgres:15"))
	w.condition("bad", databasev1.ConditionUpToDate, databasev1.ReasonImagePullFailed)
	if got := w.sql("bad", "SELECT 1;"); got != "1" {
		t.Errorf("psql prints %q", got)
	}
	w.change("bad", image("postgres:15-next"))
	w.settled("bad")
}
