// Package telemetry tests the program's telemetry as a whole, on a real API server and a real PostgreSQL: a receiver
// made of OTLP's generated services takes what is sent, and the tests read it as an operator would.
//
// Invariants:
//   - What a test expects of a trace is the whole trace, span by span.
//   - The search for leaks is shown to find a planted one.
package telemetry
