// Package dedicated is the controller of the dedicated Database (database.example.com): a PostgreSQL server of its own,
// run by Patroni in the pods of a StatefulSet.
//
// Who does what: Patroni starts, stops and promotes PostgreSQL and elects the primary; this package makes and owns the
// objects around it, decides when a pod is restarted, asks Patroni to move the primary or to clone a standby anew, grows
// volumes, and keeps the application's role, database and Secret by package postgres.
//
// Invariants:
//   - The finalizer is written before anything is made; a Database that is being deleted gets nothing made any more.
//   - An object that isn't the Database's own is never written (ChildConflict).
//   - An object is written only where it differs from the wish; an idle Database costs no write.
//   - The primary's label is kept right by a controller of its own, which never waits for a pod.
//   - A standby's data is thrown away only while a primary serves, by Patroni, at most once an hour, and an event says so.
//   - Writes are synchronous, where the spec says so, as long as there is a second pod; no parameter makes that an empty word.
//   - Who leads, or may lead while nobody does, has a place in the StatefulSet, whatever the replicas are to be; others go
//     only when the primary says itself that it is one.
//   - A pod is deleted only where the spec asks for another pod than it is, one at a time, the primary last; never
//     because this program is of another build. A parameter restarts PostgreSQL in the pod instead, and each member is
//     asked for that once for a state of the configuration. One that works is given up for a wish only while all serve.
//   - A server isn't stopped while shared Databases that nobody deletes live on it.
//   - Connections for them are open only while they are used, and lead to the primary's pod of that moment.
//   - A server's pods have ended before its volumes or its Database go.
//   - Volumes are never made smaller and are deleted only by deletionPolicy Delete.
//   - An image of another major version or collation version never meets the data.
//   - A stored object that can't be read as a Database stops nobody but itself.
//   - Only the status's one writer writes the status.
package dedicated
