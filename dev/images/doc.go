// Command images makes the images of the development cluster and the tests, without Docker or a registry: our own, and
// stand-ins for those of PostgreSQL that users name.
//
//	go run ./dev/images [-only NAME,...] [-out DIR]
//
// It prints the paths of docker-archives, one a line, for `ctr images import`. An archive may hold several images that
// share their layers. Debian's packages come by mmdebstrap, which is to be installed and needs root or user namespaces.
//
// Invariants:
//   - What is in the cache is whole: files get their name when they are finished.
//   - A cached file's name holds a hash of all that it is made from.
//   - Layers aren't compressed: on one machine that costs more than it saves.
package main
