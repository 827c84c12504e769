// Package credentials keeps the Secret that a client logs in with. It is the same for both kinds of Database.
//
// Invariants:
//   - The Secret is the password's source of truth: a new password is made only where a live read finds no Secret, or
//     none in it.
//   - A Secret that isn't the resource's own is never written, and no read error makes a password.
//   - An apply of a Secret that was read names its uid and resourceVersion, so that neither a deletion nor an edit
//     meanwhile is undone.
package credentials
