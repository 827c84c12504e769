// Package monitoring runs the program on real servers, makes happen what its metrics tell of, and compares what Prometheus
// would scrape, and what it would be sent by OTLP, with deploy/monitoring/metrics.txt, which the queries of alerts and
// dashboard are checked against.
//
// Invariants:
//   - The list holds all metrics of our own that a run shows, and no others.
//   - Of the libraries' metrics it holds those that a query asks for, with the labels that a run shows.
package monitoring
