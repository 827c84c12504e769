package credentials

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/ownership"
)

const (
	// secretType is the type of a Secret that the Service Binding specification can consume.
	secretType corev1.SecretType = "servicebinding.io/postgresql"
	// connectionAnnotation identifies what the Secret tells of the server, so that the cache alone shows whether it
	// is up to date.
	connectionAnnotation = "postgres.example.com/connection"
)

// The operations, as an Interceptor is told them.
const (
	OperationRead  = "read-secret"
	OperationApply = "apply-secret"
)

// Interceptor is put around each read and each apply of a Secret. It calls call at most once.
type Interceptor func(ctx context.Context, operation string, call func(context.Context) error) error

// ErrRaced says that the Secret that was read is gone, was edited, or another one took its place. Read it again.
var ErrRaced = errors.New("the Secret changed while it was applied")

// ErrConflict says that a Secret of that name exists that isn't the resource's own.
var ErrConflict = errors.New("a Secret of that name isn't the resource's own")

// Store reads and writes Secrets.
type Store struct {
	// Client writes; Live reads from the API server, past the cache.
	Client client.Client
	Live   client.Reader
	// FieldManager is the field manager of every write.
	FieldManager string
	// Scenario is the failure scenario that the owner carries, which its Secret carries too; empty for none.
	Scenario string
	// Intercept is put around the operations; nil for nothing.
	Intercept Interceptor
}

func (s Store) intercept(ctx context.Context, operation string, call func(context.Context) error) error {
	if s.Intercept == nil {
		return call(ctx)
	}
	return s.Intercept(ctx, operation, call)
}

// Read reads the owner's Secret of that name from the API server; nil where there is none. It fails with ErrConflict
// where the Secret isn't the owner's.
func (s Store) Read(ctx context.Context, owner ownership.Owner, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.intercept(ctx, OperationRead, func(ctx context.Context) error {
		return s.Live.Get(ctx, client.ObjectKey{Namespace: owner.Object.GetNamespace(), Name: name}, secret)
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the Secret: %w", err)
	case !owner.Owns(secret):
		return nil, ErrConflict
	}
	return secret, nil
}

// Password is the Secret's password, and a new one, to be set, where it has none. secret may be nil.
func Password(secret *corev1.Secret) (password string, isNew bool) {
	if secret != nil && len(secret.Data["password"]) > 0 {
		return string(secret.Data["password"]), false
	}
	return rand.Text(), true
}

// Version names one state of one Secret.
func Version(secret metav1.Object) string {
	return string(secret.GetUID()) + "/" + secret.GetResourceVersion()
}

// Settled reports from the Secret's metadata that it is in the state of that version, and that it tells of the
// endpoint and carries the scenario.
func (s Store) Settled(secret metav1.Object, owner ownership.Owner, endpoint Endpoint, version string) bool {
	return Version(secret) == version && s.annotated(secret, endpoint) && metav1.IsControlledBy(secret, owner.Object)
}

// annotated reports that the Secret has our annotations. A scenario that somebody else wrote on the Secret of an owner
// without one is theirs: our own was in the mark, which tells when it is to be taken off.
func (s Store) annotated(secret metav1.Object, endpoint Endpoint) bool {
	have := secret.GetAnnotations()
	return have[connectionAnnotation] == s.mark(endpoint) &&
		(s.Scenario == "" || have[v1alpha1.FailureScenarioAnnotation] == s.Scenario)
}

// mark is the value of connectionAnnotation. Without a scenario it is the endpoint's alone.
func (s Store) mark(endpoint Endpoint) string {
	if s.Scenario == "" {
		return endpoint.hash()
	}
	sum := sha256.Sum256([]byte(endpoint.hash() + "\n" + s.Scenario))
	return hex.EncodeToString(sum[:8])
}

// Apply brings the Secret to the login at the endpoint and returns the version that holds the password. secret is
// what Read gave, nil for none. It fails with ErrRaced where the Secret was deleted, replaced, edited or created
// meanwhile.
func (s Store) Apply(ctx context.Context, owner ownership.Owner, name string, secret *corev1.Secret, endpoint Endpoint, login Login) (string, error) {
	data := endpoint.data(login)
	if secret != nil && s.upToDate(secret, owner, endpoint, data) {
		return Version(secret), nil
	}
	var version string
	err := s.intercept(ctx, OperationApply, func(ctx context.Context) (err error) {
		version, err = s.apply(ctx, owner, name, secret, endpoint, data)
		return err
	})
	if err != nil {
		return "", raced(fmt.Errorf("applying the Secret: %w", err))
	}
	return version, nil
}

func (s Store) apply(ctx context.Context, owner ownership.Owner, name string, secret *corev1.Secret, endpoint Endpoint, data map[string][]byte) (string, error) {
	if secret != nil {
		err := owner.RemoveStale(ctx, s.Client, secret, client.FieldOwner(s.FieldManager), client.DisableReadYourWritesConsistency)
		if err != nil {
			return "", err
		}
	}
	annotations := map[string]string{connectionAnnotation: s.mark(endpoint)}
	if s.Scenario != "" {
		annotations[v1alpha1.FailureScenarioAnnotation] = s.Scenario
	}
	wish := corev1ac.Secret(name, owner.Object.GetNamespace()).
		WithType(secretType).
		WithLabels(map[string]string{ownership.ManagedByLabel: ownership.ManagedByValue}).
		WithAnnotations(annotations).
		WithOwnerReferences(owner.Reference()).
		WithData(data)
	options := []client.ApplyOption{client.FieldOwner(s.FieldManager), client.DisableReadYourWritesConsistency}
	if secret != nil {
		// The uid lets the apply fail where the Secret was deleted, instead of bringing the old password back, and the
		// resourceVersion where it was edited, instead of undoing the edit.
		wish.WithUID(secret.UID).WithResourceVersion(secret.ResourceVersion).WithType(secret.Type)
		options = append(options, client.ForceOwnership)
	}
	// Without force a Secret that somebody made meanwhile is not overwritten: its type conflicts, or its fields. (The
	// consistency that is switched off would start a second watch, of whole Secrets.)
	if err := s.Client.Apply(ctx, wish, options...); err != nil {
		return "", err
	}
	return string(*wish.UID) + "/" + *wish.ResourceVersion, nil
}

// raced turns the API server's answers that mean "this isn't the Secret that you read" into ErrRaced.
func raced(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) && immutable(err) {
		return fmt.Errorf("%w: %w", ErrRaced, err)
	}
	return err
}

// immutable reports a refusal of the uid or the type: another Secret took the place.
func immutable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid" || c.Field == "type"
	})
}

// upToDate reports that an apply would change nothing.
func (s Store) upToDate(secret *corev1.Secret, owner ownership.Owner, endpoint Endpoint, data map[string][]byte) bool {
	for key, value := range data {
		if !bytes.Equal(secret.Data[key], value) {
			return false
		}
	}
	_, hasCA := secret.Data["ca.crt"]
	return hasCA == (len(endpoint.CA) > 0) &&
		secret.Labels[ownership.ManagedByLabel] == ownership.ManagedByValue &&
		s.annotated(secret, endpoint) &&
		metav1.IsControlledBy(secret, owner.Object)
}
