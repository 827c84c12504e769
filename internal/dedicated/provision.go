package dedicated

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/postgres"
)

// maxSecretRaces is how often a reconcile starts over because the Secret was changed under its hands.
const maxSecretRaces = 5

// sslMode is what Secrets say: TLS where the server offers it.
const sslMode = "prefer"

// superuser reads the Secret with the passwords of the superuser, of replication and of Patroni's REST interface, and
// makes it, or what it lacks, where it must. The launcher in the pods brings PostgreSQL to what it says.
func (r *Reconciler) superuser(ctx context.Context, db *databasev1.Database) (*corev1.Secret, error) {
	name := db.Name + suffixSuperuser
	secret, err := r.secrets().Read(ctx, owner(db), name)
	switch {
	case errors.Is(err, credentials.ErrConflict):
		return nil, &conflictError{"Secret", name}
	case err != nil:
		return nil, err
	}
	keys := []string{launcher.KeySuperuser, launcher.KeyReplication, launcher.KeyREST}
	complete := secret != nil && metav1.IsControlledBy(secret, db) && !slices.ContainsFunc(keys, func(key string) bool { return len(secret.Data[key]) == 0 })
	if complete {
		return secret, nil
	}
	data := map[string][]byte{}
	for _, key := range keys {
		data[key] = []byte(rand.Text())
	}
	wish := corev1ac.Secret(name, db.Namespace).WithType(corev1.SecretTypeOpaque).WithLabels(childLabels(db)).
		WithOwnerReferences(owner(db).Reference())
	options := []client.ApplyOption{client.FieldOwner(r.FieldManager), client.DisableReadYourWritesConsistency}
	if secret != nil {
		if err := owner(db).RemoveStale(ctx, r.Client, secret, client.FieldOwner(r.FieldManager), client.DisableReadYourWritesConsistency); err != nil {
			return nil, err
		}
		for key, value := range secret.Data {
			if _, ours := data[key]; ours && len(value) > 0 {
				data[key] = value
			}
		}
		wish.WithUID(secret.UID).WithResourceVersion(secret.ResourceVersion).WithType(secret.Type)
		options = append(options, client.ForceOwnership)
	}
	if err := r.Client.Apply(ctx, wish.WithData(data), options...); err != nil {
		return nil, fmt.Errorf("applying the Secret %q: %w", name, err)
	}
	return &corev1.Secret{Data: data}, nil
}

// server is the Admin of the PostgreSQL in a pod.
type server interface {
	postgres.Admin
	CheckParameters(ctx context.Context, parameters map[string]string) (map[string]string, error)
	Checkpoint(ctx context.Context) error
	Close()
}

// connect makes the Admin of the pod's PostgreSQL; it doesn't connect yet.
func (r *Reconciler) connect(pod *corev1.Pod, superuser *corev1.Secret) (server, error) {
	return postgres.NewServerAt(postgres.Connection{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(databasev1.Port)),
		User:    launcher.RoleSuperuser, Password: string(superuser.Data[launcher.KeySuperuser]), Database: "postgres",
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx, pod, databasev1.Port) },
	}, r.SQL)
}

// provision brings the application's role, its database and its Secret to the spec.
func (r *Reconciler) provision(ctx context.Context, db *databasev1.Database, admin server) *problem {
	endpoint := credentials.Endpoint{Host: host(db), Port: databasev1.Port, SSLMode: sslMode}
	due := r.logins.Due(client.ObjectKeyFromObject(db), r.LoginInterval)
	if !due && db.Status.Ready && r.settled(ctx, db, endpoint) {
		err := r.provisionServer(ctx, db, admin, wishOf(db))
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
	return credentials.Settled(secret, owner(db), endpoint, db.Status.SecretVersion)
}

// provisionWithSecret reads the Secret, provisions with its password or a new one, sees that it logs in, and applies
// the Secret.
func (r *Reconciler) provisionWithSecret(ctx context.Context, db *databasev1.Database, admin server, endpoint credentials.Endpoint) *problem {
	secret, err := r.secrets().Read(ctx, owner(db), db.SecretName())
	switch {
	case errors.Is(err, credentials.ErrConflict):
		db.Status.SecretName, db.Status.SecretVersion, db.Status.Binding = "", "", databasev1.SecretBinding{}
		e := &conflictError{"Secret", db.SecretName()}
		return &problem{reason: databasev1.ReasonSecretConflict, message: conflictMessage(e), stuck: true, err: e}
	case err != nil:
		return &problem{reason: databasev1.ReasonSecretApplyFailed, message: "The Secret could not be read.", err: err}
	}
	wish := wishOf(db)
	wish.Password, wish.SetPassword = credentials.Password(secret)
	if secret == nil || credentials.Version(secret) != db.Status.SecretVersion {
		wish.SetPassword = true
	}
	if err := r.provisionServer(ctx, db, admin, wish); err != nil {
		return serverProblem(err)
	}
	if p := r.logIn(ctx, db, admin, wish); p != nil {
		return p
	}
	version, err := r.secrets().Apply(ctx, owner(db), db.SecretName(), secret, endpoint,
		credentials.Login{Username: wish.Name, Password: wish.Password, Database: wish.Database})
	if err != nil {
		return &problem{reason: databasev1.ReasonSecretApplyFailed, message: "The Secret could not be applied.", err: err}
	}
	db.Status.SecretName = db.SecretName()
	db.Status.Binding = databasev1.SecretBinding{Name: db.SecretName()}
	db.Status.SecretVersion = version
	return nil
}

// logIn sees that the password logs in, and sets it once more where the server says that it is another one.
func (r *Reconciler) logIn(ctx context.Context, db *databasev1.Database, admin server, wish postgres.Wish) *problem {
	for range 2 {
		ok, err := admin.CheckLogin(ctx, wish.Name, wish.Database, wish.Password)
		if ok || err != nil {
			return serverProblem(err)
		}
		wish.SetPassword = true
		if err := r.provisionServer(ctx, db, admin, wish); err != nil {
			return serverProblem(err)
		}
	}
	return &problem{reason: databasev1.ReasonPostgresUnavailable, message: "The server refuses the login although its password was set.",
		err: errors.New("the login is refused")}
}

// provisionServer calls Provision. A claim of an earlier Database of this name is taken over: the volume was its own.
func (r *Reconciler) provisionServer(ctx context.Context, db *databasev1.Database, admin server, wish postgres.Wish) error {
	wish.Claim = r.claim(db)
	outcome, err := admin.Provision(ctx, wish)
	var e *postgres.Error
	if errors.As(err, &e) && e.Kind == postgres.KindNameConflict && e.Claim != nil &&
		e.Claim.Group == databasev1.GroupVersion.Group && e.Claim.Namespace == db.Namespace && e.Claim.Name == db.Name {
		wish.TakeOver = e.Claim
		outcome, err = admin.Provision(ctx, wish)
	}
	if len(outcome.Changes) > 0 {
		log.FromContext(ctx).Info("changed", "changes", outcome.Changes)
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

func (r *Reconciler) secrets() credentials.Store {
	return credentials.Store{Client: r.Client, Live: r.Live, FieldManager: r.FieldManager}
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

// accepted are those of the spec's parameters that are in the members' shared configuration, with the values that they
// have there.
func accepted(db *databasev1.Database, o *observed) map[string]string {
	var config struct {
		PostgreSQL struct {
			Parameters map[string]string `json:"parameters"`
		} `json:"postgresql"`
	}
	_ = json.Unmarshal([]byte(o.config), &config) // what can't be read has accepted nothing
	parameters := map[string]string{}
	for name := range db.Spec.Parameters {
		if value, ok := config.PostgreSQL.Parameters[name]; ok {
			parameters[name] = value
		}
	}
	return parameters
}

// parameters are those to be in the members' shared configuration now. While there is a primary, and before there was
// one, only those that PostgreSQL is known to take. Where it was there and doesn't come up, the spec's as they are: a
// wrong one may be why, and nobody can be asked.
func (o *observed) parameters(db *databasev1.Database) map[string]string {
	if o.primary() != nil || db.Status.SecretVersion == "" || len(o.pods) == 0 {
		return accepted(db, o)
	}
	for i := range o.pods {
		if o.pods[i].DeletionTimestamp != nil || !everStarted(&o.pods[i]) {
			return accepted(db, o) // it is only being restarted
		}
	}
	return wantedParameters(db)
}

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
func (r *Reconciler) setParameters(ctx context.Context, db *databasev1.Database, o *observed, admin server) *problem {
	now, wanted := accepted(db, o), wantedParameters(db)
	if maps.Equal(now, wanted) {
		return nil
	}
	faults, err := admin.CheckParameters(ctx, wanted)
	if err != nil {
		return serverProblem(err)
	}
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
	children, err := store(db, o, wanted)
	if err == nil {
		err = r.applyChildren(ctx, db, children)
	}
	switch {
	case apierrors.IsConflict(err):
		return nil
	case err != nil:
		return childProblem(err)
	case len(said) > 0:
		return &problem{reason: databasev1.ReasonInvalidParameters, stuck: true, message: strings.Join(said, "; ") + "."}
	}
	// Patroni sees them at its next loop, and then says which need a restart.
	return &problem{reason: databasev1.ReasonRollingOut, message: "Parameters are being set."}
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
