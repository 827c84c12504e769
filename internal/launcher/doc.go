// Package launcher starts Patroni in an image that knows nothing of it: the user's own postgres:NN.
//
// An init container copies Python, Patroni and the program databases-patroni into a folder of the pod (Install), and
// the main container starts the program from there as its first process (Run). Before it touches anything it looks at
// the image (Inspect) and at the data (Guard), and refuses with one line of JSON what can't go well.
//
// While Patroni runs it asks it whether it lives. A Patroni that was killed or hangs is started again beside a PostgreSQL
// that goes on (patroni.go): so clients notice nothing, where the end of the container would end PostgreSQL too.
//
// contract.go is what the controller needs to know: paths, names of environment variables, reasons, and the JSON.
//
// Invariants:
//   - Nothing is written to the volume before the image and the data have been found to fit each other.
//   - Nothing on the volume is ever removed.
//   - Patroni is never started beside anything of an earlier one but a running PostgreSQL.
//   - A password is read from a file and written to one file of mode 0600 in memory: never to a log, an argument, an
//     error or the environment.
//   - This package imports no database driver; package roles below it does.
package launcher
