// Package shared is the controller of the Database of postgres.example.com: a role and a database on a PostgreSQL
// server that already runs, with a Secret to log in with. The server is the one that the program was started with, or the
// dedicated one that the Database names, which the interface Servers finds.
//
// A reconcile reads the password from the Secret, has package postgres provision the role and the database, applies
// the Secret, and sets Ready. Where the cache shows that the Secret is the one whose password was last set, it is not
// read; what is left then is one SELECT.
//
// Invariants:
//   - The finalizer is on the Database before any SQL is sent for it.
//   - The Secret is the password's source of truth: a new password is made only where a live read finds no Secret, or
//     no password in it.
//   - A Secret that isn't the Database's is never written.
//   - A Database that is being deleted creates nothing. It goes without SQL only with Retain, or where the API server says
//     that its dedicated server has ended.
//   - The status is written once a reconcile, by Reconcile, and only where it changed.
//   - No password is in a log, an error, an event or a condition.
package shared
