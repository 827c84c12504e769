//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/example/databases/api/database/v1"
)

func sized(size string) func(*databasev1.Database) {
	return func(db *databasev1.Database) { db.Spec.Storage.Size = size }
}

// TestStorageGrows: the claims and the file system grow under running pods; smaller is refused and the rest goes on.
func TestStorageGrows(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("grows", sized("1Gi"))
	w.ready("grows")
	pods := w.pods("grows")
	set := &appsv1.StatefulSet{}
	w.get("grows", set)
	for _, step := range []struct {
		size string
		mib  int
	}{{"1024Mi", 1024}, {"1500Mi", 1500}, {"2Gi", 2048}} {
		w.change("grows", sized(step.size))
		w.settled("grows")
		claim := &corev1.PersistentVolumeClaim{}
		w.get("data-grows-0", claim)
		if got := claim.Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(resource.MustParse(step.size)) != 0 {
			t.Errorf("after %s the claim asks for %s", step.size, got.String())
		}
		w.eventually("the file system has "+step.size, func() bool {
			output, err := w.tryKubectl("", "exec", "grows-0", "-c", "postgres", "--", "df", "-BM", "--output=size", "/var/lib/postgresql/data")
			if err != nil {
				return false
			}
			fields := strings.Fields(output)
			mib, err := strconv.Atoi(strings.TrimSuffix(fields[len(fields)-1], "M"))
			return err == nil && mib > step.mib*9/10 && mib <= step.mib
		})
	}
	w.change("grows", func(db *databasev1.Database) {
		db.Spec.Storage.Size = "1Gi"
		db.Spec.Parameters = map[string]databasev1.ParameterValue{"work_mem": "7MB"}
	})
	w.condition("grows", databasev1.ConditionUpToDate, databasev1.ReasonStorageShrinkRejected)
	w.eventually("the rest of the change is carried out", func() bool {
		got, err := w.trySQL("grows", "SHOW work_mem;")
		return err == nil && got == "7MB"
	})
	if got := w.ready("grows").Spec.Storage.Size; got != "1Gi" {
		t.Errorf("the spec was changed to %s", got)
	}
	if now := w.pods("grows"); !same(pods, now) {
		t.Errorf("pods restarted: %v, then %v", pods, now)
	}
	after := &appsv1.StatefulSet{}
	w.get("grows", after)
	if after.UID != set.UID {
		t.Error("the StatefulSet was made again")
	}
}

// TestLostAndFound: an ext4 volume begins with a folder of its own.
func TestLostAndFound(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("ext", func(db *databasev1.Database) { db.Spec.Storage.StorageClass = "standard-ext4" })
	w.ready("ext")
	if got := w.kubectl("exec", "ext-0", "-c", "postgres", "--", "ls", "/var/lib/postgresql/data"); !strings.Contains(got, "lost+found") || !strings.Contains(got, "pgdata") {
		t.Errorf("the volume has %q", got)
	}
	if got := w.sql("ext", "SELECT 1;"); got != "1" {
		t.Errorf("psql prints %q", got)
	}
}

// TestDiskFull: a full volume stops PostgreSQL; a larger size, while it is down, brings it back with its rows.
func TestDiskFull(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create("full", sized("400Mi"))
	w.ready("full")
	w.sql("full", "CREATE TABLE t (i int);", "INSERT INTO t VALUES (1);")
	w.kubectl("exec", "full-0", "-c", "postgres", "--", "sh", "-c",
		"cat /dev/zero > /var/lib/postgresql/data/filler 2>/dev/null; df /var/lib/postgresql/data | tail -1")
	w.eventually("PostgreSQL can't write any more", func() bool {
		output, err := w.trySQL("full", "CREATE TABLE more AS SELECT repeat('x', 1000) FROM generate_series(1, 50000);", "CHECKPOINT;")
		return err != nil && output != ""
	})
	w.kubectl("delete", "pod", "full-0", "--wait=false", "--grace-period=1")
	w.eventually("PostgreSQL is down", func() bool {
		_, err := w.trySQL("full", "SELECT 1;")
		return err != nil
	})
	time.Sleep(10 * time.Second)
	if _, err := w.trySQL("full", "SELECT 1;"); err == nil {
		t.Error("PostgreSQL started on a full volume: the case shows nothing")
	}
	w.change("full", sized("1Gi"))
	w.settled("full")
	if got := w.sql("full", "SELECT i FROM t;"); got != "1" {
		t.Errorf("psql prints %q", got)
	}
}
