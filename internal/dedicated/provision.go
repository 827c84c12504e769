package dedicated

import (
	"context"
	"errors"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/postgres"
)

// maxSecretRaces is how often a reconcile starts over because the Secret was changed under its hands.
const maxSecretRaces = 5

// sslMode is what Secrets say: TLS where the server offers it.
const sslMode = "prefer"

// server is the Admin of the PostgreSQL in a pod.
type server interface {
	postgres.Admin
	CheckParameters(ctx context.Context, parameters map[string]string) (map[string]string, error)
	Checkpoint(ctx context.Context) error
	Standbys(ctx context.Context) (map[string]int64, error)
	Close()
}

// connect makes the Admin of the pod's PostgreSQL; it doesn't connect yet.
func (r *Reconciler) connect(pod *corev1.Pod, superuser *corev1.Secret) (server, error) {
	return r.connectAs(pod, string(superuser.Data[launcher.KeySuperuser]))
}

// connectAs is connect with the superuser's password.
func (r *Reconciler) connectAs(pod *corev1.Pod, password string) (server, error) {
	return postgres.NewServerAt(postgres.Connection{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(databasev1.Port)),
		User:    launcher.RoleSuperuser, Password: password, Database: "postgres",
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx, pod, databasev1.Port) },
	}, r.SQL)
}

// provision brings the application's role, its database and its Secret to the spec.
func (r *Reconciler) provision(ctx context.Context, db *databasev1.Database, admin postgres.Admin) *problem {
	endpoint := credentials.Endpoint{Host: host(db), Port: databasev1.Port, SSLMode: sslMode}
	due := r.logins.Due(client.ObjectKeyFromObject(db), r.LoginInterval)
	if !due && db.Status.Ready && r.settled(ctx, db, endpoint) {
		err := r.provisionServer(ctx, db, admin, wishOf(db), true)
		if postgres.KindOf(err) != postgres.KindPasswordNeeded {
			return serverProblem(err)
		}
	}
	for range maxSecretRaces {
		p := r.provisionWithSecret(ctx, db, admin, endpoint)
		if p == nil || !errors.Is(p.err, credentials.ErrRaced) {
			return p
		}
	}
	return &problem{reason: databasev1.ReasonSecretApplyFailed, err: credentials.ErrRaced,
		message: "The Secret is deleted or replaced faster than it can be applied."}
}

// settled reports whether the cache shows the Secret whose password was last set, with all that this controller put
// there: then it needn't be read.
func (r *Reconciler) settled(ctx context.Context, db *databasev1.Database, endpoint credentials.Endpoint) bool {
	if db.Status.SecretVersion == "" {
		return false
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: db.SecretName()}, secret); err != nil {
		return false
	}
	return r.secrets(ctx).Settled(secret, owner(db), endpoint, db.Status.SecretVersion)
}

// provisionWithSecret reads the Secret, provisions with its password or a new one, sees that it logs in, and applies
// the Secret.
func (r *Reconciler) provisionWithSecret(ctx context.Context, db *databasev1.Database, admin postgres.Admin, endpoint credentials.Endpoint) *problem {
	secret, err := r.secrets(ctx).Read(ctx, owner(db), db.SecretName())
	switch {
	case errors.Is(err, credentials.ErrConflict):
		db.Status.SecretName, db.Status.SecretVersion, db.Status.Binding = "", "", databasev1.SecretBinding{}
		e := &conflictError{"Secret", db.SecretName()}
		return &problem{reason: databasev1.ReasonSecretConflict, message: conflictMessage(e), stuck: true, err: e}
	case err != nil:
		return &problem{reason: databasev1.ReasonSecretApplyFailed, message: "The Secret could not be read.", err: err}
	}
	wish := wishOf(db)
	var isNew bool
	wish.Password, isNew = credentials.Password(secret)
	wish.SetPassword = isNew || secret == nil || credentials.Version(secret) != db.Status.SecretVersion
	drift := db.Status.Ready && !wish.SetPassword
	if err := r.provisionServer(ctx, db, admin, wish, drift); err != nil {
		return serverProblem(err)
	}
	if p := r.logIn(ctx, db, admin, wish, drift); p != nil {
		return p
	}
	version, err := r.secrets(ctx).Apply(ctx, owner(db), db.SecretName(), secret, endpoint,
		credentials.Login{Username: wish.Name, Password: wish.Password, Database: wish.Database})
	if err != nil {
		return &problem{reason: databasev1.ReasonSecretApplyFailed, message: "The Secret could not be applied.", err: err}
	}
	if isNew && db.Status.SecretVersion != "" {
		r.Telemetry.Rotated(ctx)
	}
	db.Status.SecretName = db.SecretName()
	db.Status.Binding = databasev1.SecretBinding{Name: db.SecretName()}
	db.Status.SecretVersion = version
	return nil
}

// logIn sees that the password logs in, and sets it once more where the server says that it is another one.
func (r *Reconciler) logIn(ctx context.Context, db *databasev1.Database, admin postgres.Admin, wish postgres.Wish, drift bool) *problem {
	for range 2 {
		ok, err := admin.CheckLogin(ctx, wish.Name, wish.Database, wish.Password)
		if ok || err != nil {
			return serverProblem(err)
		}
		wish.SetPassword = true
		if err := r.provisionServer(ctx, db, admin, wish, drift); err != nil {
			return serverProblem(err)
		}
	}
	return &problem{reason: databasev1.ReasonPostgresUnavailable, message: "The server refuses the login although its password was set.",
		err: errors.New("the login is refused")}
}

// provisionServer calls Provision. A claim of an earlier Database of this name is taken over: the volume was its own.
// drift says that what it changes is what somebody else changed in PostgreSQL.
func (r *Reconciler) provisionServer(ctx context.Context, db *databasev1.Database, admin postgres.Admin, wish postgres.Wish, drift bool) error {
	wish.Claim = r.claim(db)
	outcome, err := r.Telemetry.Provision(ctx, admin, wish)
	var e *postgres.Error
	if errors.As(err, &e) && e.Kind == postgres.KindNameConflict && e.Claim != nil &&
		e.Claim.Group == databasev1.GroupVersion.Group && e.Claim.Namespace == db.Namespace && e.Claim.Name == db.Name {
		wish.TakeOver = e.Claim
		outcome, err = r.Telemetry.Provision(ctx, admin, wish)
	}
	if len(outcome.Changes) > 0 {
		log.FromContext(ctx).Info("changed", "changes", outcome.Changes)
	}
	if drift {
		r.Telemetry.Repaired(ctx, outcome.Changes)
	}
	if outcome.DatabaseCreated && db.Status.SecretVersion != "" {
		r.Recorder.Eventf(db, nil, corev1.EventTypeWarning, databasev1.ReasonDatabaseRecreated, "Reconcile",
			"The database %q was missing in PostgreSQL and was created again, empty.", db.Spec.DatabaseName)
	}
	return err
}

func wishOf(db *databasev1.Database) postgres.Wish {
	return postgres.Wish{Name: db.Spec.Username, Database: db.Spec.DatabaseName, ConnectionLimit: postgres.NoConnectionLimit}
}

func (r *Reconciler) claim(db *databasev1.Database) postgres.Claim {
	return postgres.Claim{Cluster: r.Cluster, Group: databasev1.GroupVersion.Group, Namespace: db.Namespace, Name: db.Name, UID: string(db.UID)}
}

func (r *Reconciler) secrets(ctx context.Context) credentials.Store {
	return credentials.Store{Client: r.Client, Live: r.Live, FieldManager: r.FieldManager,
		Scenario: fault.Carried(ctx), Intercept: fault.Secrets}
}

// serverReasons are the conditions' reasons for the server's refusals, all of which a person must mend; every other
// failure is PostgresUnavailable.
var serverReasons = map[postgres.Kind]string{
	postgres.KindNameReserved:     databasev1.ReasonNameReserved,
	postgres.KindAlreadyExists:    databasev1.ReasonAlreadyExists,
	postgres.KindNameConflict:     databasev1.ReasonNameConflict,
	postgres.KindPasswordRejected: databasev1.ReasonPasswordRejected,
}

func serverProblem(err error) *problem {
	if err == nil {
		return nil
	}
	p := &problem{reason: databasev1.ReasonPostgresUnavailable, message: "PostgreSQL can't be reached by the controller.", err: err}
	var e *postgres.Error
	if errors.As(err, &e) && e.Kind != postgres.KindUnavailable {
		p.message = e.Message
		if reason, ok := serverReasons[e.Kind]; ok {
			p.reason, p.stuck = reason, true
		}
	}
	return p
}

// checkpoint shortens what the next start replays. It is worth a try and no more.
func (r *Reconciler) checkpoint(ctx context.Context, db *databasev1.Database, o *observed) {
	primary := o.primary()
	if primary == nil {
		return
	}
	superuser, err := r.superuser(ctx, db)
	if err != nil {
		return
	}
	admin, err := r.connect(primary, superuser)
	if err != nil {
		return
	}
	defer admin.Close()
	if err := admin.Checkpoint(ctx); err != nil {
		log.FromContext(ctx).Info("no checkpoint before the restart", "err", err)
	}
}
