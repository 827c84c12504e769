package shared

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/postgres"
)

// Servers finds the dedicated servers that Databases name in spec.serverRef.
type Servers interface {
	// Connect gives the server's Admin, the same for all who ask while the server's primary stays, and what Secrets tell
	// of the server. Its error is a NotFound of the API's where there is no such server, and of KindUnavailable where
	// nothing of it takes statements. It asks the cache.
	Connect(ctx context.Context, server types.NamespacedName) (postgres.Admin, credentials.Endpoint, error)

	// Ended reports that nothing of the server runs or will run: it is gone, or it is being deleted and has no pods. It
	// asks the API server.
	Ended(ctx context.Context, server types.NamespacedName) (bool, error)
}

// target is the server that a Database lives on.
type target struct {
	admin postgres.Admin
	// endpoint is what the Secret tells of it; a deletion doesn't need it.
	endpoint func() (credentials.Endpoint, error)
	// server is the name of the dedicated Database; empty for the server that the program was started with.
	server string
}

// serverOf is the dedicated Database that the Database names.
func serverOf(db *v1alpha1.Database) types.NamespacedName {
	return types.NamespacedName{Namespace: db.Namespace, Name: db.Spec.ServerRef.Name}
}

// target finds the Database's server.
func (r *Reconciler) target(ctx context.Context, db *v1alpha1.Database) (target, *failure) {
	t := target{admin: r.Admin, endpoint: r.Endpoint, server: db.Spec.ServerRef.Name}
	switch {
	case t.server != "":
		admin, endpoint, err := r.Servers.Connect(ctx, serverOf(db))
		if apierrors.IsNotFound(err) {
			return t, fail(v1alpha1.ReasonServerNotFound, err, fmt.Sprintf(
				"There is no dedicated Database %q (database.example.com) in this namespace, which spec.serverRef names.", t.server))
		}
		t.admin, t.endpoint = admin, func() (credentials.Endpoint, error) { return endpoint, nil }
		return t, t.failure(err)
	case r.Admin == nil:
		return t, fail(v1alpha1.ReasonNoServer, errors.New("no server"),
			"The controller runs without a PostgreSQL server: name a dedicated Database in spec.serverRef (of a new Database), or set POSTGRES_ADMIN_DSN_FILE and POSTGRES_HOST and start it again.")
	}
	return t, nil
}

// refuseLeaving lets nothing new be made on a server that is being deleted; what lives there is looked after to its end.
func (r *Reconciler) refuseLeaving(ctx context.Context, db *v1alpha1.Database, t target) *failure {
	if t.server == "" || db.Status.SecretVersion != "" {
		return nil
	}
	server := newServer()
	err := r.Client.Get(ctx, serverOf(db), server)
	if err == nil && server.GetDeletionTimestamp() != nil {
		return fail(v1alpha1.ReasonServerNotFound, errors.New("the server is being deleted"), fmt.Sprintf(
			"The dedicated Database %q, which spec.serverRef names, is being deleted: nothing new is made on it.", t.server))
	}
	return nil
}

// failure says what an error of the server means for the Database; nil where there is none. A dedicated server's
// Databases don't wait for a breaker: the server's own condition changes when it is back, which wakes them.
func (t target) failure(err error) *failure {
	failed := serverFailure(err)
	if failed == nil || t.server == "" {
		return failed
	}
	if failed.park = false; postgres.KindOf(err) == postgres.KindUnavailable {
		failed.message = fmt.Sprintf("The dedicated Database %q, which spec.serverRef names, has no primary that answers: see its condition Ready.", t.server)
	}
	return failed
}

// newServer is the form in which the cache has dedicated Databases.
func newServer() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(databasev1.GroupVersion.WithKind(databasev1.DatabaseKind))
	return u
}

// serverMade, serverChanged and serverGone look at the Databases of a dedicated server that something happened to.
func (r *Reconciler) serverMade(ctx context.Context, e event.CreateEvent, q queue) {
	if !e.IsInInitialList { // then they are new to this process too
		r.wakeUsers(ctx, e.Object, q)
	}
}

func (r *Reconciler) serverChanged(ctx context.Context, e event.UpdateEvent, q queue) {
	if serverRelevant(e) {
		r.wakeUsers(ctx, e.ObjectNew, q)
	}
}

func (r *Reconciler) serverGone(ctx context.Context, e event.DeleteEvent, q queue) {
	r.wakeUsers(ctx, e.Object, q)
}

// serverRelevant passes what lets a Database go on: a login works again, another pod is the primary, the deletion
// begins. A primary that is lost for a moment is no reason to look, nor is any other write of the status.
func serverRelevant(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*unstructured.Unstructured)
	after, ok2 := e.ObjectNew.(*unstructured.Unstructured)
	if !ok1 || !ok2 {
		return true
	}
	readyBefore, _, _ := unstructured.NestedBool(before.Object, "status", "ready")
	readyAfter, _, _ := unstructured.NestedBool(after.Object, "status", "ready")
	primaryBefore, _, _ := unstructured.NestedString(before.Object, "status", "primary")
	primaryAfter, _, _ := unstructured.NestedString(after.Object, "status", "primary")
	return !readyBefore && readyAfter || primaryAfter != "" && primaryBefore != primaryAfter ||
		before.GetUID() != after.GetUID() || before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil
}

func (r *Reconciler) wakeUsers(ctx context.Context, server client.Object, q queue) {
	var users v1alpha1.DatabaseList
	err := r.Client.List(ctx, &users, client.InNamespace(server.GetNamespace()),
		client.MatchingFields{serverRefIndex: server.GetName()}, client.DisableReadYourWritesConsistency)
	if err != nil {
		return // they look again by themselves, later
	}
	for i := range users.Items {
		add(q, &users.Items[i], 0)
	}
}
