// Package fault makes calls fail on purpose: decorators around the round trips to PostgreSQL and the requests to the
// API server, which count the calls and spoil one of them.
//
// Invariants:
//   - A call that isn't spoiled is passed on unchanged.
//   - Without a decorator of this package in place nothing here runs.
package fault
