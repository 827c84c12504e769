package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/example/databases/internal/postgres"
)

// parameters asks the server what it takes, and compares with what it then does.
func parameters(t *testing.T, b *bench) {
	good := map[string]string{
		"work_mem": "16MB", "shared_buffers": "1GB", "max_connections": "200", "checkpoint_timeout": "10min", "maintenance_work_mem": "65536",
		"wal_compression": "on", "jit": "off", "autovacuum": "yes", "log_min_duration_statement": "-1", "random_page_cost": "1.1",
		"log_statement": "DDL", "timezone": "UTC", "pg_stat_statements.max": "1000", "vacuum_cost_delay": "2ms", "effective_cache_size": "4 GB",
		"max_wal_size": "0x400", "checkpoint_completion_target": "0.9",
	}
	bad := map[string]string{
		"work_mem": "lots", "shared_buffers": "16XB", "max_connections": "0", "checkpoint_timeout": "10MB", "jit": "perhaps",
		"log_statement": "some", "no_such_parameter": "1", "autovacuum": "", "random_page_cost": "-1", "block_size": "8192",
		"max_wal_size": "1e", "maintenance_work_mem": "1kB",
	}
	if !b.weak { // who may not load libraries can't find out either
		good["session_preload_libraries"], bad["session_preload_libraries"] = "auto_explain, plpgsql", "auto_explain, no_such_library"
		bad["local_preload_libraries"] = "no_such_library"
		good["local_preload_libraries"] = "$libdir/auto_explain"
	}
	for what, all := range map[string]map[string]string{"good": good, "bad": bad} {
		faults, err := b.admin.CheckParameters(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range all {
			if (faults[name] != "") != (what == "bad") {
				t.Errorf("%s = %q: %q", name, value, faults[name])
			}
			if strings.Contains(name, ".") || strings.HasSuffix(name, "preload_libraries") { // it takes any, and then nobody can log in
				continue
			}
			// The server's own word; RESET leaves nothing behind.
			err := b.Exec(t.Context(), "ALTER SYSTEM SET "+name+" = '"+value+"'")
			if err == nil {
				b.exec(t, "ALTER SYSTEM RESET "+name)
			}
			if (err == nil) != (what == "good") {
				t.Errorf("the server itself says of %s = %q: %v", name, value, err)
			}
		}
	}
}

func TestDuration(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "5s": 5 * time.Second, " 2 min": 2 * time.Minute, "1.5h": 90 * time.Minute, "400ms": 0, "1d": 24 * time.Hour, "700000us": time.Second, "0x10": 16 * time.Second, "0e3": 0, "0.4": 0, "0.5": 0, "1.5": 2 * time.Second,
	} {
		if got, err := postgres.Duration(value, time.Second); got != want || err != nil {
			t.Errorf("%q is %v, error %v, want %v", value, got, err, want)
		}
	}
	for _, value := range []string{"", "long", "5 parsecs"} {
		if got, err := postgres.Duration(value, time.Second); err == nil {
			t.Errorf("%q is %v", value, got)
		}
	}
}

func checkpoint(t *testing.T, b *bench) {
	err := b.admin.Checkpoint(t.Context())
	if b.weak == (err == nil) {
		t.Errorf("a weak admin (%t) gets %v", b.weak, err)
	}
}

// noStandbys: the statement is right on every version; test/e2e has the standbys.
func noStandbys(t *testing.T, b *bench) {
	standbys, err := b.admin.Standbys(t.Context())
	if err != nil || len(standbys) > 0 {
		t.Errorf("%v, error %v", standbys, err)
	}
}
