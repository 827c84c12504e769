// Package testenv gives tests a real Kubernetes control plane with the project's CustomResourceDefinitions. It builds
// and runs the program in dev/cluster, so a test needs Go and nothing else.
//
// The first build on a machine takes about six minutes, nearly go test's default limit of ten: run
// `go run -C dev/cluster . build` before, which also shows its progress.
//
// A package with such tests has
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
//
// and its tests begin with
//
//	env := testenv.Get(t)
//	namespace := testenv.Namespace(t, env.Client())
//
// Invariants:
//   - nothing is faked: the API server validates, defaults and authorizes as in production, and the controller manager
//     collects garbage and empties namespaces;
//   - what cannot start fails the tests and never skips them;
//   - the control plane ends with the test process, even if that is killed;
//   - clients are not limited to a rate, so a test's time is the servers';
//   - tests share the control plane and are kept apart by namespaces.
package testenv
