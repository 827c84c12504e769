package dedicated

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/ownership"
)

// appliedAnnotation identifies what was applied last, so that a field that is wished for no more is noticed too.
const appliedAnnotation = "database.example.com/applied"

// child is one object of a Database.
type child struct {
	// live is an empty object of the child's type, into which it is read.
	live client.Object
	// wish is what is applied; labels and the owner are added.
	wish runtime.ApplyConfiguration
}

// conflictError: an object of that name isn't the Database's own.
type conflictError struct{ kind, name string }

func (e *conflictError) Error() string {
	return fmt.Sprintf("a %s %q exists that isn't this Database's", e.kind, e.name)
}

// leavingError: an object of an earlier Database of this name is still being deleted.
type leavingError struct{ kind, name string }

func (e *leavingError) Error() string {
	return fmt.Sprintf("the %s %q is being deleted", e.kind, e.name)
}

// applyChild brings the object to the wish. It writes nothing where the cache shows that it is so already.
func (r *Reconciler) applyChild(ctx context.Context, db *databasev1.Database, c child) error {
	wish, err := complete(db, c.wish)
	if err != nil {
		return err
	}
	kind, name := wish.GetKind(), wish.GetName()
	found, err := r.readChild(ctx, client.ObjectKeyFromObject(wish), c.live)
	if err != nil {
		return fmt.Errorf("reading the %s %q: %w", kind, name, err)
	}
	// The consistency that is switched off would start a second watch, of untyped objects.
	options := []client.ApplyOption{client.FieldOwner(r.FieldManager), client.DisableReadYourWritesConsistency}
	if found {
		switch {
		case !owner(db).Owns(c.live):
			return &conflictError{kind, name}
		case c.live.GetDeletionTimestamp() != nil:
			return &leavingError{kind, name}
		case isApplied(wish, c.live, db):
			return nil
		}
		if err := owner(db).RemoveStale(ctx, r.Client, c.live, client.FieldOwner(r.FieldManager)); err != nil {
			return err
		}
		wish.SetUID(c.live.GetUID()) // so that another object of this name isn't overwritten
		options = append(options, client.ForceOwnership)
	}
	// Without force an object that somebody made since it was looked for isn't overwritten where its fields differ.
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wish), options...); err != nil {
		return fmt.Errorf("applying the %s %q: %w", kind, name, err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(wish.Object, c.live)
}

// readChild reads an object from the cache, and from the API server where the cache has none: it has only those with
// our label.
func (r *Reconciler) readChild(ctx context.Context, key client.ObjectKey, into client.Object) (bool, error) {
	err := r.Client.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, into)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// complete adds what every child has: labels, the owner and the mark of what was applied.
func complete(db *databasev1.Database, wish runtime.ApplyConfiguration) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wish)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	labels := childLabels(db)
	maps.Copy(labels, u.GetLabels())
	u.SetLabels(labels)
	ref := owner(db).Reference()
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: *ref.APIVersion, Kind: *ref.Kind, Name: *ref.Name, UID: *ref.UID,
		Controller: ref.Controller, BlockOwnerDeletion: ref.BlockOwnerDeletion,
	}})
	sum, err := hash(u.Object)
	if err != nil {
		return nil, err
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appliedAnnotation] = sum
	u.SetAnnotations(annotations)
	return u, nil
}

// isApplied reports that the wish was applied last and that nobody has changed a field of it since.
func isApplied(wish *unstructured.Unstructured, live client.Object, controller metav1.Object) bool {
	if live.GetAnnotations()[appliedAnnotation] != wish.GetAnnotations()[appliedAnnotation] {
		return false
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil || !metav1.IsControlledBy(live, controller) {
		return false
	}
	wished := maps.Clone(wish.Object)
	wished["metadata"] = object{"labels": wished["metadata"].(object)["labels"], "annotations": wished["metadata"].(object)["annotations"]}
	delete(wished, "kind") // which the cache leaves out
	delete(wished, "apiVersion")
	return includes(content, wished)
}

// includes reports that all of the wish is in the object, which may have more: defaults, and what others set. No
// library does it: apimachinery's DeepDerivative counts a number that isn't set as a wish, and the apply
// configurations' Extract functions parse the schema of every built-in type first, some 20 MB.
func includes(object, wish any) bool {
	switch w := wish.(type) {
	case map[string]any:
		o, _ := object.(map[string]any)
		for key, value := range w {
			if !includes(o[key], value) {
				return false
			}
		}
		return true
	case []any:
		o, _ := object.([]any)
		if len(o) != len(w) {
			return false
		}
		for i := range w {
			if !includes(o[i], w[i]) {
				return false
			}
		}
		return true
	}
	if object == nil { // left out where it is empty
		return wish == nil || reflect.ValueOf(wish).IsZero()
	}
	return object == wish
}

// hash identifies a value by its JSON, whose keys are sorted.
func hash(value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), nil
}

func owner(db *databasev1.Database) ownership.Owner {
	return ownership.Owner{Object: db, Kind: databasev1.GroupVersion.WithKind(databasev1.DatabaseKind)}
}
