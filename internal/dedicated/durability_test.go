package dedicated

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	databasev1 "github.com/example/databases/api/database/v1"
)

// TestUnsafeParameters: what one replica may have, several may lose acknowledged writes by. It isn't only refused, but
// also taken out again where the replicas become several.
func TestUnsafeParameters(t *testing.T) {
	for _, c := range []struct {
		name, value string
		durability  databasev1.Durability
		replicas    int32
		want        []string
	}{
		{"synchronous_commit", "off", databasev1.DurabilitySync, 3, []string{"synchronous_commit"}},
		{"synchronous_commit", "LOCAL", databasev1.DurabilitySync, 2, []string{"synchronous_commit"}},
		{"synchronous_commit", "remote_write", databasev1.DurabilitySync, 3, []string{"synchronous_commit"}},
		{"synchronous_commit", "false", databasev1.DurabilitySync, 3, []string{"synchronous_commit"}},
		{"synchronous_commit", "On", databasev1.DurabilitySync, 3, nil},
		{"synchronous_commit", "remote_apply", databasev1.DurabilitySync, 3, nil},
		{"synchronous_commit", "off", databasev1.DurabilitySync, 1, nil},
		{"synchronous_commit", "off", databasev1.DurabilityAsync, 3, nil},
		{"wal_sender_timeout", "0", databasev1.DurabilitySync, 3, []string{"wal_sender_timeout"}},
		{"wal_receiver_timeout", "0 s", databasev1.DurabilityAsync, 3, []string{"wal_receiver_timeout"}},
		{"wal_sender_timeout", "5s", databasev1.DurabilitySync, 3, nil},
	} {
		db := &databasev1.Database{Spec: databasev1.DatabaseSpec{
			Replicas: c.replicas, Durability: c.durability,
			Parameters: map[string]databasev1.ParameterValue{c.name: databasev1.ParameterValue(c.value), "work_mem": "8MB"},
		}}
		config, err := json.Marshal(patroniDynamic(db, &observed{}, wantedParameters(db)))
		if err != nil {
			t.Fatal(err)
		}
		o := &observed{config: string(config)}
		if got := slices.Sorted(maps.Keys(unsafeParameters(db, o))); !slices.Equal(got, c.want) {
			t.Errorf("%s = %s, %s, %d replicas: refused are %q, want %q", c.name, c.value, c.durability, c.replicas, got, c.want)
		}
		if kept := accepted(db, o); kept["work_mem"] != "8MB" || (kept[c.name] == "") != (len(c.want) == 1) {
			t.Errorf("%s = %s, %s, %d replicas: those that stay are %q", c.name, c.value, c.durability, c.replicas, kept)
		}
	}
}
