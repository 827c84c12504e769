// Package status keeps an object's conditions and writes its status, once and only where it changed.
//
// Invariants:
//   - A condition's message is one line.
//   - Nothing is sent where the status is as it was.
//   - A write that would overwrite a newer object fails with a conflict.
package status

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxMessage is the API's limit for a condition's message, in bytes.
const maxMessage = 32768

// Set puts a condition into the list, keeping lastTransitionTime where its status stays.
func Set(conditions *[]metav1.Condition, generation int64, kind string, value metav1.ConditionStatus, reason, message string) {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	apimeta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: generation,
	})
}

// Changed reports whether a condition's status or reason differs between two lists; a condition that is missing on
// one side counts as changed.
func Changed(before, after []metav1.Condition, kind string) bool {
	a, b := apimeta.FindStatusCondition(before, kind), apimeta.FindStatusCondition(after, kind)
	if a == nil || b == nil {
		return a != b
	}
	return a.Status != b.Status || a.Reason != b.Reason
}

// Write sends the status of after where it differs from before's, by a merge patch that names before's
// resourceVersion. oldStatus and newStatus are the two status structs.
func Write(ctx context.Context, c client.Client, before, after client.Object, oldStatus, newStatus any) error {
	if equality.Semantic.DeepEqual(oldStatus, newStatus) {
		return nil
	}
	return c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
