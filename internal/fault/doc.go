// Package fault makes calls fail on purpose: decorators around the operations on PostgreSQL, the Secret and the API
// server, which ask a source what is to become of each call. An Injector, for the crash sweep, spoils one call of all
// that pass; a Scenario, which a Database carries in an annotation, spoils that Database's own.
//
// Invariants:
//   - A call that isn't spoiled is passed on unchanged.
//   - A call for a Database without a scenario costs one look into its context.
//   - Only namespaces with the trusted prefix have scenarios; without a prefix none has.
//   - A fault strikes before the operation begins, so that no lock and no connection is held while it does. Only an
//     Injector may spoil what has taken effect.
//   - A delay is never longer than the cap, and ends with the context.
package fault
