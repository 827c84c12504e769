package ownership

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ManagedByLabel marks the objects that the controllers make; only objects with it are watched.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByValue is the label's value.
	ManagedByValue = "databases"
)

// Owner is a resource that owns others.
type Owner struct {
	// Object has the resource's namespace, name and uid.
	Object client.Object
	// Kind is the resource's.
	Kind schema.GroupVersionKind
}

// Owns reports whether the object is the resource's own: the resource controls it, or it carries our label and is
// controlled by nothing, or by a resource of this kind and name that is no more (a restored backup).
func (o Owner) Owns(object metav1.Object) bool {
	controller := metav1.GetControllerOf(object)
	if controller != nil && controller.UID == o.Object.GetUID() {
		return true
	}
	return object.GetLabels()[ManagedByLabel] == ManagedByValue && (controller == nil || o.ofThisName(*controller))
}

// ofThisName reports a reference to a resource of this kind and name, whatever its uid.
func (o Owner) ofThisName(ref metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == o.Kind.Group && ref.Kind == o.Kind.Kind && ref.Name == o.Object.GetName()
}

// Reference is the owner reference of the resource's objects.
func (o Owner) Reference() *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(o.Kind.GroupVersion().String()).WithKind(o.Kind.Kind).
		WithName(o.Object.GetName()).WithUID(o.Object.GetUID()).WithController(true).WithBlockOwnerDeletion(true)
}

// RemoveStale removes the references to resources of this name that are no more: two controllers can't be.
func (o Owner) RemoveStale(ctx context.Context, c client.Client, object client.Object, options ...client.PatchOption) error {
	stale := func(ref metav1.OwnerReference) bool { return ref.UID != o.Object.GetUID() && o.ofThisName(ref) }
	if !slices.ContainsFunc(object.GetOwnerReferences(), stale) {
		return nil
	}
	before := object.DeepCopyObject().(client.Object)
	object.SetOwnerReferences(slices.DeleteFunc(object.GetOwnerReferences(), stale))
	if err := c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...); err != nil {
		return fmt.Errorf("removing stale owners from %s: %w", object.GetName(), err)
	}
	return nil
}
