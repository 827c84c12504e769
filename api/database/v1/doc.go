// Package v1 is version v1 of the API group database.example.com: PostgreSQL servers, each with a database of its own.
//
// Invariants:
//   - Every rule that a Database alone can break is checked at admission, by the schema or by CEL; what needs the
//     server's or another resource's state is checked by the controller and said in a condition.
//   - The package imports nothing else of this module.
//   - A condition's reason is also the event's reason and a heading of docs/server-reasons.md.
//
// +kubebuilder:object:generate=true
// +groupName=database.example.com
package v1
