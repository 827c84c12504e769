// Package settings reads the program's settings from the environment and checks them, all at once: who starts the
// program with three mistakes is told of three.
//
// It is written by hand because the libraries for it name Go fields instead of variables, stop at the first fault of
// a kind, or quote the refused value, which may be a password put into the wrong variable.
//
// Invariants:
//   - Every variable of the program is in Variables, with its meaning and its default; OpenTelemetry's own are checked
//     with them.
//   - A fault is one line that begins with the variable's name; it never quotes the variable's value.
package settings
