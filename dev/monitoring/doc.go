// Command monitoring makes deploy/monitoring/dashboard.json, a Grafana dashboard; `make generate` runs it. Its tests hold
// together what is said in several places: alert rules, their tests and their runbook; the queries of rules and dashboard
// and the metrics that the program exports.
//
// It is a module of its own because Prometheus, whose parser and promtool the tests use, brings many dependencies.
//
// Invariants:
//   - The same code makes the same bytes.
//   - Every alert has a runbook heading, a case in which it fires, one in which it stays quiet and one in which it ends.
//   - No query asks for a metric or a label that nobody exports: the program, or another that is named.
package main
