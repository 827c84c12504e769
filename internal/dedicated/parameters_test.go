package dedicated

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/example/databases/api/database/v1"
)

type parameters = map[string]string

// wish is a Database whose spec has the parameters.
func wish(parameters parameters) *databasev1.Database {
	db := &databasev1.Database{}
	db.Spec.Parameters = map[string]databasev1.ParameterValue{}
	for name, value := range parameters {
		db.Spec.Parameters[name] = databasev1.ParameterValue(value)
	}
	return db
}

// TestParametersOfTheStore: only what PostgreSQL is known to take, but where it doesn't come up for long, when nobody can be
// asked.
func TestParametersOfTheStore(t *testing.T) {
	const config = `{"postgresql":{"parameters":{"work_mem":"8MB","max_wal_size":"1GB"}}}`
	known, wished := parameters{"work_mem": "8MB"}, parameters{"work_mem": "16MB", "jit": "off"}
	for _, c := range []struct {
		what    string
		members []string
		config  string
		fresh   bool // it was never there before
		want    parameters
	}{
		{"there is a primary", []string{"primary", "standby"}, config, false, known},
		{"all have been down for long", []string{"primary broken", "standby broken"}, config, false, wished},
		{"a new one", []string{"primary broken"}, config, true, known},
		{"no pods", nil, config, false, known},
		{"one was down for a moment only", []string{"primary broken", "standby blinked"}, config, false, known},
		{"one ends", []string{"primary broken", "standby broken leaving"}, config, false, known},
		{"one never started", []string{"primary broken", "standby down"}, config, false, known},
		{"one serves", []string{"standby broken", "standby"}, config, false, known},
		{"the store has nothing", []string{"primary"}, "", false, parameters{}},
		{"the store can't be read", []string{"primary"}, "{", false, parameters{}},
	} {
		db, o := wish(wished), pods(c.members...)
		o.config = c.config
		if !c.fresh {
			db.Status.SecretVersion = "u/1"
		}
		if diff := cmp.Diff(c.want, o.parameters(db, time.Now())); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
}

// TestSetParameters goes from one wish to the next. What PostgreSQL or Patroni doesn't take keeps its earlier value.
func TestSetParameters(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1).withPostgres()
	admin, err := s.connectAs(&corev1.Pod{}, s.password())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	const being = "RollingOut: Parameters are being set."
	const invalid = "InvalidParameters: "
	for _, c := range []struct {
		what   string
		wish   parameters
		say    string
		stored parameters
	}{
		{"none", parameters{}, "", parameters{}},
		{"two", parameters{"work_mem": "8MB", "max_connections": "25"}, being, parameters{"work_mem": "8MB", "max_connections": "25"}},
		{"the same", parameters{"work_mem": "8MB", "max_connections": "25"}, "", parameters{"work_mem": "8MB", "max_connections": "25"}},
		{"one that is wrong", parameters{"work_mem": "much", "max_connections": "30"},
			invalid + `work_mem = "much" must be a number, with a unit as 16MB.`, parameters{"work_mem": "8MB", "max_connections": "30"}},
		{"one that was never right", parameters{"work_memory": "8MB", "max_connections": "30"},
			invalid + `work_memory = "8MB" is no parameter of this PostgreSQL.`, parameters{"max_connections": "30"}},
		{"less than Patroni takes", parameters{"max_connections": "24", "max_worker_processes": "1"},
			invalid + `max_connections = "24" must be 25 or more: Patroni takes nothing less; max_worker_processes = "1" must be 2 or more: Patroni takes nothing less.`,
			parameters{"max_connections": "30"}},
		{"the least that Patroni takes", parameters{"max_wal_senders": "3", "max_replication_slots": "4", "max_locks_per_transaction": "32", "max_worker_processes": "2"}, being,
			parameters{"max_wal_senders": "3", "max_replication_slots": "4", "max_locks_per_transaction": "32", "max_worker_processes": "2"}},
		{"a standby that vanished would be waited for", parameters{"wal_sender_timeout": "0", "wal_receiver_timeout": "0ms"},
			invalid + `wal_receiver_timeout = "0ms" must not be 0: a standby that vanished would hold every write up; ` +
				`wal_sender_timeout = "0" must not be 0: a standby that vanished would hold every write up.`,
			parameters{"wal_sender_timeout": "15s", "wal_receiver_timeout": "15s"}}, // as every server has them
		{"times that end", parameters{"wal_sender_timeout": "10s", "wal_receiver_timeout": "1min"}, being,
			parameters{"wal_sender_timeout": "10s", "wal_receiver_timeout": "1min"}},
		{"one that is unsafe, and was safe", parameters{"wal_sender_timeout": "0.5", "wal_receiver_timeout": "1min"},
			invalid + `wal_sender_timeout = "0.5" must not be 0: a standby that vanished would hold every write up.`,
			parameters{"wal_sender_timeout": "10s", "wal_receiver_timeout": "1min"}},
		{"none any more", parameters{}, "", parameters{}},
	} {
		db := s.database()
		db.Spec.Parameters = wish(c.wish).Spec.Parameters
		before := s.observed()
		before.initialized = true
		p := s.setParameters(t.Context(), db, before, s.superuserSecret(), admin)
		if got := said(p); got != c.say || p != nil && p.stuck != (p.reason == databasev1.ReasonInvalidParameters) {
			t.Errorf("%s: %q, %+v; want %q", c.what, got, p, c.say)
		}
		changed := !maps.Equal(configuredParameters(before.config), configuredParameters(s.observed().config))
		asked := strings.HasPrefix(c.say, invalid) // at once, and there is none
		if waits := s.configured.waiting(db.UID); waits != (changed && !asked) {
			t.Errorf("%s: the store changed %t, the members are waited for %t", c.what, changed, waits)
		}
		s.configured.forget(db.UID)
		if diff := cmp.Diff(c.stored, accepted(db, s.observed())); diff != "" {
			t.Errorf("%s: the store: %s", c.what, diff)
		}
	}
	var store struct {
		Durable bool `json:"failsafe_mode"`
	}
	if err := json.Unmarshal([]byte(s.observed().config), &store); err != nil || !store.Durable {
		t.Errorf("the rest of the configuration: %s", s.observed().config)
	}
}

// TestAwaitParameters: only once each member has looked at the store and had a loop of Patroni's time.
func TestAwaitParameters(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	waits := func(name string) string { return "RollingOut: Parameters are being set; " + name + " is to take them." }
	look := func(what, want string, seen map[string]int64, members ...string) {
		t.Helper()
		w.patroni.set(func() { w.patroni.seen = seen })
		if got := said(w.awaitParameters(t.Context(), w.db, pods(members...), w.patroni.secret())); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	look("nothing was set", "", nil, "primary", "standby")
	w.configured.begin("a")
	look("at once", waits("a-1"), map[string]int64{"a-0": 100, "a-1": 200}, "primary", "standby")
	look("one is late", waits("a-0"), map[string]int64{"a-0": 104, "a-1": 205}, "primary", "standby")
	w.patroni.set(func() { w.patroni.silent = "a-1" })
	look("one doesn't answer", waits("a-1"), map[string]int64{"a-0": 105, "a-1": 205}, "primary", "standby")
	w.patroni.set(func() { w.patroni.silent = "" })
	look("all have looked", "", map[string]int64{"a-0": 105, "a-1": 205}, "primary", "standby")
	if w.configured.waiting("a") {
		t.Error("it waits on")
	}
	w.configured.begin("a")
	look("at once, again", waits("a-0"), map[string]int64{"a-0": 300, "a-1": 300}, "primary", "standby blinked")
	look("one that isn't ready takes them when it starts", "", map[string]int64{"a-0": 305, "a-1": 300}, "primary", "standby blinked")
}
