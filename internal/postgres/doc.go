// Package postgres brings roles and databases of a PostgreSQL server to a wish, in domain verbs: Provision, Drop and
// CheckLogin, the interface Admin. Behind Provision stand three steps: observe the server (one round trip), Plan the
// changes (a pure function) and apply them, until there is nothing left to change.
//
// It works as a superuser and as a weak admin, a role with LOGIN CREATEDB CREATEROLE and nothing more, on PostgreSQL
// 14 to 18.
//
// Who owns a role is written in the role's comment, the Claim: a tenant can't write there. A database is ours only
// while a role that we claimed owns it.
//
// Invariants:
//   - The package knows no Kubernetes; a Claim is text to it.
//   - Nothing is changed or dropped that wasn't observed to be ours in the same operation.
//   - A database takes connections only after PUBLIC has lost CONNECT and TEMPORARY on it.
//   - A password leaves the process only as a SCRAM-SHA-256 verifier, or in the authentication of CheckLogin. No
//     password or DSN is in an error's text.
//   - The admin never connects to a tenant's database.
//   - At most MaxConnections connections are open at once, whatever the number of databases; while the server can't
//     be reached there is one attempt at a time to reach it, and calls fail at once.
//   - Every name is checked by CheckName and quoted before it is part of a statement.
package postgres
