// Package ownership says which objects are a resource's own, the same way for both kinds of Database and for each of
// their children.
//
// Invariants:
//   - An object that isn't the resource's own in this sense is never written.
//   - A stale owner reference is removed under the resourceVersion that was read.
package ownership
