package dedicated

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/postgres"
)

// accepted are those of the spec's parameters that are in the members' shared configuration, with the values that they
// have there.
func accepted(db *databasev1.Database, o *observed) map[string]string {
	parameters, configured := map[string]string{}, configuredParameters(o.config)
	for name := range db.Spec.Parameters {
		if value, ok := configured[name]; ok {
			parameters[name] = value
		}
	}
	return withoutUnsafe(parameters, o.synchronous(db))
}

// configuredParameters are all of the members' shared configuration; none of one that can't be read.
func configuredParameters(config string) map[string]string {
	var content struct {
		PostgreSQL struct {
			Parameters map[string]string `json:"parameters"`
		} `json:"postgresql"`
	}
	_ = json.Unmarshal([]byte(config), &content)
	return content.PostgreSQL.Parameters
}

// parameters are those to be in the members' shared configuration now. While there is a primary, and before there was
// one, only those that PostgreSQL is known to take. Where it was there and doesn't come up for long, the spec's as they
// are: a wrong one may be why, and nobody can be asked.
func (o *observed) parameters(db *databasev1.Database, now time.Time) map[string]string {
	if o.primary() != nil || db.Status.SecretVersion == "" || len(o.pods) == 0 {
		return accepted(db, o)
	}
	for i := range o.pods {
		if o.pods[i].DeletionTimestamp != nil || !everStarted(&o.pods[i]) || !isBroken(&o.pods[i], now) {
			return accepted(db, o) // it is only being restarted, or another one is about to be the primary
		}
	}
	return withoutUnsafe(wantedParameters(db), o.synchronous(db))
}

// withoutUnsafe takes out what unsafeParameters finds.
func withoutUnsafe(parameters map[string]string, synchronous bool) map[string]string {
	for name := range unsafeParameters(parameters, synchronous) {
		delete(parameters, name)
	}
	return parameters
}

// unsafeParameters says what is wrong with parameters that PostgreSQL would take, but with which the spec's durability
// would be an empty word, or writes would wait for ever. It depends on the replicas: what one may have, several may not.
func unsafeParameters(parameters map[string]string, synchronous bool) map[string]string {
	faults := map[string]string{}
	if value, ok := parameters["synchronous_commit"]; ok && synchronous && !slices.Contains(waitsForStandby, strings.ToLower(value)) {
		faults["synchronous_commit"] = "would lose acknowledged writes at a failover: it must be on or remote_apply, or spec.durability Async"
	}
	for _, name := range []string{"wal_sender_timeout", "wal_receiver_timeout"} {
		if limit, err := postgres.Duration(parameters[name], time.Millisecond); err == nil && limit == 0 {
			faults[name] = "must not be 0: a standby that vanished would hold every write up"
		}
	}
	return faults
}

// waitsForStandby are the values of synchronous_commit with which a write is on a standby's disk when it is
// acknowledged, with PostgreSQL's other words for on. It takes no shortened ones for this parameter.
var waitsForStandby = []string{"on", "remote_apply", "true", "yes", "1"}

func wantedParameters(db *databasev1.Database) map[string]string {
	wanted := map[string]string{}
	for name, value := range db.Spec.Parameters {
		wanted[name] = string(value)
	}
	return wanted
}

// patroniLeast are the least values that Patroni takes; it replaces what is below them by its own defaults.
var patroniLeast = map[string]int{
	"max_connections": 25, "max_wal_senders": 3, "max_replication_slots": 4, "max_locks_per_transaction": 32, "max_worker_processes": 2,
}

// setParameters puts the spec's parameters into the members' shared configuration, once PostgreSQL is known to take
// them: a wrong one would keep it from starting. One that it doesn't take keeps its earlier value.
func (r *Reconciler) setParameters(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret, admin server) *problem {
	now, wanted := accepted(db, o), wantedParameters(db)
	if maps.Equal(now, wanted) {
		return r.awaitParameters(ctx, db, o, superuser)
	}
	faults, err := admin.CheckParameters(ctx, wanted)
	if err != nil {
		return serverProblem(err)
	}
	maps.Copy(faults, unsafeParameters(wanted, o.synchronous(db)))
	for name, least := range patroniLeast {
		if n, err := strconv.Atoi(wanted[name]); err == nil && n < least && faults[name] == "" {
			faults[name] = fmt.Sprintf("must be %d or more: Patroni takes nothing less", least)
		}
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		said = append(said, fmt.Sprintf("%s = %q %s", name, wanted[name], faults[name]))
		delete(wanted, name)
		if value, ok := now[name]; ok {
			wanted[name] = value
		}
	}
	config, err := r.store(db, o, wanted)
	if err == nil {
		err = r.applyChildren(ctx, db, config)
	}
	switch {
	case apierrors.IsConflict(err):
		return nil
	case err != nil:
		return childProblem(err)
	case len(said) > 0:
		awaited := r.awaitParameters(ctx, db, o, superuser) != nil // the others are to be carried out
		return &problem{reason: databasev1.ReasonInvalidParameters, stuck: !awaited, message: strings.Join(said, "; ") + "."}
	}
	return &problem{reason: databasev1.ReasonRollingOut, message: "Parameters are being set."}
}

// awaitParameters waits until each member has looked at the store since parameters were written there, and had a loop
// of Patroni's time to set them: only then it says which need a restart.
func (r *Reconciler) awaitParameters(ctx context.Context, db *databasev1.Database, o *observed, superuser *corev1.Secret) *problem {
	if !r.configured.waiting(db.UID) {
		return nil
	}
	late := ""
	for i := range o.pods {
		if !isPodReady(&o.pods[i]) {
			continue // it takes them when it starts
		}
		now, err := r.memberNow(ctx, &o.pods[i], superuser)
		if err != nil || r.configured.since(db.UID, o.pods[i].UID, now.LastSeen) < patroniLoopWait {
			late = o.pods[i].Name
		}
	}
	if late != "" {
		return &problem{reason: databasev1.ReasonRollingOut, message: fmt.Sprintf("Parameters are being set; %s is to take them.", late)}
	}
	r.configured.forget(db.UID)
	return nil
}
