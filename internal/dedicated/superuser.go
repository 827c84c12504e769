package dedicated

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/credentials"
	"github.com/example/databases/internal/launcher"
)

// superuser reads the Secret with the passwords of the superuser, of replication and of Patroni's REST interface, and
// makes it, or what it lacks, where it must. The launcher in the pods brings PostgreSQL to what it says.
func (r *Reconciler) superuser(ctx context.Context, db *databasev1.Database) (*corev1.Secret, error) {
	name := db.Name + suffixSuperuser
	secret, err := credentials.Store{Live: r.Live}.Read(ctx, owner(db), name)
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
