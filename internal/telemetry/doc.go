// Package telemetry exports what the program does by OpenTelemetry: traces, metrics and logs, to a collector by OTLP
// or, metrics, to whoever scrapes them. OpenTelemetry's own variables configure it.
//
// Its parts are decorators around what is there already: each controller's reconcile.Reconciler, the round trips to
// PostgreSQL, the requests to the API server. What only a controller knows it says by a method of Controller.
//
// Invariants:
//   - Nothing is exported that the environment doesn't ask for, and then nothing is decorated either.
//   - A collector that is slow or gone delays no reconcile, and the end of the program by at most flushLimit.
//   - No SQL, no query string, no header and no secret is in a span, a metric or a record.
//   - No metric has an attribute that grows with the number of Databases.
package telemetry
