package dedicated

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/postgres"
)

// Servers are the dedicated servers for those who put more databases on them: for each one Admin, through its primary's
// pod, as long as that pod and the superuser's password stay.
type Servers struct {
	reconciler *Reconciler
	pools      pools
}

// NewServers makes the Servers that the reconciler looks after. Start closes connections that nobody uses, Close all.
func NewServers(r *Reconciler) *Servers { return &Servers{reconciler: r, pools: newPools(maxPools)} }

// Connect gives the Admin of a server and what Secrets tell of it. The error is NotFound where there is no such server,
// and of KindUnavailable where it has no primary. Only a superuser's Secret that is new is read from the API server.
func (s *Servers) Connect(ctx context.Context, key types.NamespacedName) (postgres.Admin, credentials.Endpoint, error) {
	stored := newUnstructured()
	if err := s.reconciler.Client.Get(ctx, key, stored); err != nil {
		if apierrors.IsNotFound(err) {
			s.pools.remove(key)
		}
		return nil, credentials.Endpoint{}, err
	}
	// The spec isn't asked, so that it needn't be one that can be read.
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: stored.GetUID()}}
	pod, version, err := s.reconciler.reach(ctx, db)
	if err != nil {
		return nil, credentials.Endpoint{}, &postgres.Error{Kind: postgres.KindFailed, Message: "The server's objects could not be read.", Err: err}
	}
	if pod == nil {
		return nil, credentials.Endpoint{}, &postgres.Error{Kind: postgres.KindUnavailable, Message: fmt.Sprintf("The server %q has no primary.", key.Name)}
	}
	at := route{server: db.UID, pod: pod.UID, ip: pod.Status.PodIP}
	p := s.pools.find(key, at, version)
	if p == nil {
		if p, err = s.open(ctx, db, pod, at); err != nil {
			return nil, credentials.Endpoint{}, err
		}
	}
	return fault.Admin(p), credentials.Endpoint{Host: host(db), Port: databasev1.Port, SSLMode: sslMode}, nil
}

// open reads the superuser's password and makes the pool, or finds that it is the one there was.
func (s *Servers) open(ctx context.Context, db *databasev1.Database, pod *corev1.Pod, at route) (*pool, error) {
	r := s.reconciler
	secret, err := credentials.Store{Live: r.Live}.Read(ctx, owner(db), db.Name+suffixSuperuser)
	if err != nil {
		return nil, &postgres.Error{Kind: postgres.KindFailed, Message: "The superuser's Secret of the server could not be read.", Err: err}
	}
	if secret == nil || len(secret.Data[launcher.KeySuperuser]) == 0 {
		return nil, &postgres.Error{Kind: postgres.KindUnavailable, Message: fmt.Sprintf("The server %q has no superuser's Secret.", db.Name)}
	}
	password := string(secret.Data[launcher.KeySuperuser])
	// What a dialer needs of the pod, and not all of it for as long as the pool lives.
	slim := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Status: corev1.PodStatus{PodIP: pod.Status.PodIP}}
	return s.pools.put(client.ObjectKeyFromObject(db), at, credentials.Version(secret), password,
		func() (server, error) { return r.connectAs(slim, password) }), nil
}

// Ended reports that nothing of the server runs or will run any more: it is gone, or being deleted, with its pods and what
// would make them again. It asks the API server.
func (s *Servers) Ended(ctx context.Context, key types.NamespacedName) (bool, error) {
	live := s.reconciler.Live
	servers := &metav1.PartialObjectMetadataList{}
	servers.SetGroupVersionKind(databasev1.GroupVersion.WithKind(databasev1.DatabaseKind + "List"))
	// A list, because nothing else here needs the right to get one.
	if err := live.List(ctx, servers, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}); err != nil {
		return false, err
	}
	if len(servers.Items) == 0 {
		return true, nil
	}
	if servers.Items[0].DeletionTimestamp == nil {
		return false, nil
	}
	set := &appsv1.StatefulSet{}
	switch err := live.Get(ctx, key, set); {
	case client.IgnoreNotFound(err) != nil:
		return false, err
	case err == nil && set.DeletionTimestamp == nil:
		return false, nil
	}
	var pods corev1.PodList
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := live.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabels(childLabels(db)))
	return err == nil && len(pods.Items) == 0, err
}

// reach finds in the cache how PostgreSQL can be told something: the primary's pod, nil where none takes statements, and
// the version of the superuser's Secret, without which nobody can log in.
func (r *Reconciler) reach(ctx context.Context, db *databasev1.Database) (*corev1.Pod, string, error) {
	set, leader := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	for suffix, object := range map[string]client.Object{"": set, suffixLeader: leader, suffixSuperuser: secret} {
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.Name + suffix}, object)
		if err != nil {
			return nil, "", client.IgnoreNotFound(err)
		}
	}
	if !metav1.IsControlledBy(set, db) || !metav1.IsControlledBy(secret, db) {
		return nil, "", nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(db.Namespace), client.MatchingLabels(selectorLabels(db))); err != nil {
		return nil, "", err
	}
	o := &observed{leader: leader.Annotations["leader"]}
	for i := range pods.Items {
		if metav1.IsControlledBy(&pods.Items[i], set) {
			o.pods = append(o.pods, pods.Items[i])
		}
	}
	return o.primary(), credentials.Version(secret), nil
}
