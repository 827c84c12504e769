package dedicated

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
)

// bootstrapTime is for how long all members must have waited. A member that makes data says so at once, but what the
// cache shows of it may be a loop of Patroni old, and on a busy machine several.
const bootstrapTime = time.Minute

// unblock lets the members begin anew where one began to make data and is gone: the others would wait for it for ever.
func (r *Reconciler) unblock(ctx context.Context, db *databasev1.Database, o *observed, now time.Time) error {
	since := r.waiting.update(db.UID, o.awaitingData(), now)
	if len(since) == 0 {
		return nil
	}
	for _, began := range since {
		if now.Sub(began) < bootstrapTime {
			return nil
		}
	}
	config := &corev1.ConfigMap{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.Name + suffixConfig}, config); err != nil {
		return client.IgnoreNotFound(err)
	}
	if id, begun := config.Annotations["initialize"]; !begun || id != "" {
		return nil
	}
	before := config.DeepCopy()
	delete(config.Annotations, "initialize")
	return r.Client.Patch(ctx, config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(r.FieldManager))
}

// awaitingData are the members, where somebody has begun to make data and each of them waits for it: Patroni calls such
// a one stopped. One that makes data has other states, from initdb to the first start. nil while there may be one.
func (o *observed) awaitingData() []types.UID {
	if !o.bootstrapping || o.leader != "" {
		return nil
	}
	var waiting []types.UID
	for i := range o.pods {
		if !isRunning(&o.pods[i]) || memberOf(&o.pods[i]).State != "stopped" {
			return nil
		}
		waiting = append(waiting, o.pods[i].UID)
	}
	return waiting
}
