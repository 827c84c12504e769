package dedicated

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

// observed is what the cache shows of a Database's objects.
type observed struct {
	// set is nil where there is none.
	set *appsv1.StatefulSet
	// pods are the set's, in the order of their ordinals.
	pods   []corev1.Pod
	claims []corev1.PersistentVolumeClaim
	// leader is the pod that Patroni's store names as primary; empty for none.
	leader string
	// initialized says that Patroni has made or found data; bootstrapping that a member has begun to.
	initialized, bootstrapping bool
	// sync are the standbys that have every acknowledged write; empty while the present primary has chosen none.
	sync []string
	// heirs are those of whom Patroni lets one lead while nobody does: the primary and the standbys that had every
	// acknowledged write last. Empty where it keeps none, as without synchronous standbys.
	heirs []string
	// left is a part of the store of an earlier Database of this name, which Kubernetes is about to delete; empty for none.
	left string
	// config is the members' shared configuration as it is in Patroni's store.
	config string
	// inspection is the pod that finds out what a new image holds, nil for none.
	inspection *corev1.Pod
}

func (r *Reconciler) observe(ctx context.Context, db *databasev1.Database) (*observed, error) {
	o := &observed{}
	set := &appsv1.StatefulSet{}
	switch _, err := r.readChild(ctx, client.ObjectKeyFromObject(db), set); { // the cache may be behind its own claims
	case err == nil && set.UID != "" && owner(db).Owns(set):
		o.set = set
	case err != nil:
		return nil, err
	}
	var pods corev1.PodList
	selector := client.MatchingLabels(selectorLabels(db))
	if err := r.Client.List(ctx, &pods, client.InNamespace(db.Namespace), selector); err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if o.set != nil && metav1.IsControlledBy(&pod, o.set) {
			o.pods = append(o.pods, pod)
		}
	}
	slices.SortFunc(o.pods, func(a, b corev1.Pod) int { return ordinal(a.Name) - ordinal(b.Name) })
	var claims corev1.PersistentVolumeClaimList
	if err := r.Client.List(ctx, &claims, client.InNamespace(db.Namespace), selector); err != nil {
		return nil, err
	}
	names := claimNames(db)
	o.claims = slices.DeleteFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool { return !slices.Contains(names, c.Name) })
	return o, r.observeStore(ctx, db, o)
}

func (r *Reconciler) observeStore(ctx context.Context, db *databasev1.Database, o *observed) error {
	annotations := func(suffix string) (map[string]string, error) {
		m := &corev1.ConfigMap{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.Name + suffix}, m)
		if controller := metav1.GetControllerOf(m); o.set == nil && controller != nil && controller.UID != db.UID {
			o.left = m.Name
			return nil, nil
		}
		return m.Annotations, client.IgnoreNotFound(err)
	}
	leader, err1 := annotations(suffixLeader)
	config, err2 := annotations(suffixConfig)
	sync, err3 := annotations(suffixSync)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	o.leader, o.config = leader["leader"], config[configAnnotation]
	id, begun := config["initialize"]
	o.initialized, o.bootstrapping = id != "", begun && id == ""
	names := strings.FieldsFunc(sync["sync_standby"], func(c rune) bool { return c == ',' })
	if sync["leader"] == o.leader { // not an earlier primary's
		o.sync = names
	}
	if sync["leader"] != "" {
		o.heirs = append(names, sync["leader"])
	}
	pod := &corev1.Pod{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.Name + suffixInspect}, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case metav1.IsControlledBy(pod, db):
		o.inspection = pod
	}
	return nil
}

// primary is the pod that takes writes: ready, labelled so, and the one that Patroni's store names. nil for none.
func (o *observed) primary() *corev1.Pod {
	for i := range o.pods {
		pod := &o.pods[i]
		if pod.Labels[roleLabel] == rolePrimary && pod.Name == o.leader && isPodReady(pod) {
			return pod
		}
	}
	return nil
}

// member is what Patroni writes about a pod in the annotation "status".
type member struct {
	State            string `json:"state"`
	Role             string `json:"role"`
	ReplicationState string `json:"replication_state"`
	PendingRestart   bool   `json:"pending_restart"`
	Tags             tags   `json:"tags"`
	// LastSeen is when the member last read Patroni's store, in seconds since 1970. Only the member itself says it.
	LastSeen int64 `json:"dcs_last_seen"`
	// XLog is how far the write-ahead log is, in bytes: what a primary has written, and a standby replayed. Only the member
	// itself says it.
	XLog struct {
		Location int64 `json:"location"`
		Replayed int64 `json:"replayed_location"`
	} `json:"xlog"`
	// Failsafe says that the primary told the member, at most Patroni's ttl ago, that it leads without reaching the store.
	// Only the member itself says it.
	Failsafe bool `json:"failsafe_mode_is_active"`
}

// tags are what the launcher lets Patroni publish of the member's image.
type tags struct {
	PostgresVersion  string `json:"postgres_version"`
	Major            int    `json:"postgres_major"`
	CollationVersion string `json:"collation_version"`
}

func memberOf(pod *corev1.Pod) member {
	var m member
	_ = json.Unmarshal([]byte(pod.Annotations["status"]), &m) // a pod whose Patroni hasn't started yet has none
	return m
}

// isServing reports that the member does its work: the primary takes writes, a standby streams.
func (o *observed) isServing(pod *corev1.Pod) bool {
	if !isPodReady(pod) {
		return false
	}
	return pod.Name == o.leader || memberOf(pod).ReplicationState == "streaming"
}

func (o *observed) serving() int {
	n := 0
	for i := range o.pods {
		if o.isServing(&o.pods[i]) {
			n++
		}
	}
	return n
}

func isPodReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// inspectionOf is what the container `inspect` of a pod reported of its image; both are nil while it hasn't.
func inspectionOf(statuses []corev1.ContainerStatus) (*launcher.Inspection, *launcher.Refusal) {
	for _, s := range statuses {
		if s.Name != inspectContainer || s.State.Terminated == nil {
			continue
		}
		if message := strings.TrimSpace(s.State.Terminated.Message); message != "" {
			inspection, refusal, err := launcher.ParseReport(message)
			if err == nil {
				return inspection, refusal
			}
		}
	}
	return nil, nil
}
