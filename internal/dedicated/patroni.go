package dedicated

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/ownership"
)

// Patroni's times, in seconds; loop_wait + 2 * retry_timeout must not exceed ttl, and the liveness probe must end a
// hung member within ttl - loop_wait.
const (
	patroniTTL          = 20
	patroniLoopWait     = 5
	patroniRetryTimeout = 5
	// patroniStartTimeout is after which a primary that crashed and doesn't come up gives way to a standby.
	patroniStartTimeout = 30
	// replicationTimeout is after which a standby that vanished with its node counts as gone, so that the primary stops
	// waiting for it: PostgreSQL's own minute is longer than a failover takes.
	replicationTimeout = "15s"
	// retryInterval is after which a standby tries again to stream, after a failover or where its slot isn't there yet.
	retryInterval = "1s"
)

type object = map[string]any

// patroniTemplate is Patroni's own configuration in each pod, without what the launcher adds there: credentials,
// addresses, the folders of the image's PostgreSQL.
func patroniTemplate(db *databasev1.Database) object {
	return object{
		"scope": db.Name,
		"kubernetes": object{
			"namespace":     db.Namespace,
			"labels":        object{appLabel: appValue, ownership.ManagedByLabel: ownership.ManagedByValue},
			"scope_label":   databaseLabel,
			"role_label":    roleLabel,
			"use_endpoints": false,

			"leader_label_value":         rolePrimary,
			"follower_label_value":       roleReplica,
			"standby_leader_label_value": rolePrimary,
		},
		"postgresql": object{
			// A new standby doesn't wait for the primary's next checkpoint, up to five minutes.
			"basebackup": []any{object{"checkpoint": "fast"}},

			"remove_data_directory_on_rewind_failure":     true,
			"remove_data_directory_on_diverged_timelines": true,
		},
	}
}

// patroniDynamic is the configuration that all members share, in Patroni's store. parameters are the spec's, as far
// as PostgreSQL is known to take them.
func patroniDynamic(db *databasev1.Database, o *observed, parameters map[string]string) object {
	all := object{
		"wal_sender_timeout": replicationTimeout, "wal_receiver_timeout": replicationTimeout,
		"wal_retrieve_retry_interval": retryInterval,
	}
	for name, value := range sizedParameters(o.volume(db)) {
		all[name] = value
	}
	for name, value := range parameters {
		all[name] = value
	}
	return object{
		"ttl":                    patroniTTL,
		"loop_wait":              patroniLoopWait,
		"retry_timeout":          patroniRetryTimeout,
		"primary_start_timeout":  patroniStartTimeout,
		"failsafe_mode":          true,
		"synchronous_mode":       o.synchronous(db),
		"synchronous_node_count": o.synchronousStandbys(db),
		"postgresql": object{
			"use_pg_rewind": true,
			"use_slots":     true,
			"parameters":    all,
		},
	}
}

// synchronous reports that a write is acknowledged only once a standby has it. It holds as long as there are standbys,
// also when the spec wishes for fewer: until then the primary may have to move. And it holds while nobody leads and
// Patroni knows who may: without it, a member that lacks acknowledged writes could.
func (o *observed) synchronous(db *databasev1.Database) bool {
	return db.Spec.Durability != databasev1.DurabilityAsync &&
		(db.Spec.Replicas > 1 || len(o.pods) > 1 || o.primary() == nil && len(o.heirs) > 0)
}

// synchronousStandbys is how many standbys have every acknowledged write. It is one, but while the primary has to leave
// its pod for good: then all, so that whichever stays can be the primary.
func (o *observed) synchronousStandbys(db *databasev1.Database) int {
	if o.leader != "" && ordinal(o.leader) >= int(db.Spec.Replicas) && len(o.pods) > 2 {
		return len(o.pods) - 1
	}
	return 1
}

// sizedParameters keep the write-ahead log from filling a small volume.
func sizedParameters(volume int64) map[string]string {
	const mb = 1 << 20
	limit := func(divisor, least, most int64) string {
		return fmt.Sprintf("%dMB", min(max(volume/mb/divisor, least), most))
	}
	return map[string]string{
		"max_wal_size":           limit(8, 64, 1024), // 1 GB is PostgreSQL's own default
		"min_wal_size":           limit(16, 32, 80),  // so is 80 MB
		"max_slot_wal_keep_size": limit(4, 64, 64*1024),
	}
}

// volume is the size of the smallest volume, as far as there are some, else the wished one.
func (o *observed) volume(db *databasev1.Database) int64 {
	least := int64(0)
	if size, err := resource.ParseQuantity(db.Spec.Storage.Size); err == nil {
		least = size.Value()
	}
	for _, claim := range o.claims {
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		if ordinal(claim.Name) < int(db.Spec.Replicas) && !capacity.IsZero() {
			least = min(least, capacity.Value())
		}
	}
	return least
}
