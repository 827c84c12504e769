//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/testenv"
)

// images are those that the cases use; dev/images makes them.
const images = "databases:dev,databases-patroni:dev,postgres:15,postgres:15-next,postgres:17,postgres:15-layout18,postgres:15-trixie,postgres:15-alpine,standin:dev"

var (
	scheme   = runtime.NewScheme()
	auditLog string
	program  string // the built controller
	kubectl  string
	tally    struct {
		sync.Mutex
		passed, failed int
	}
)

func TestMain(m *testing.M) {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(databasev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	manager.Logger(slog.New(slog.DiscardHandler))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "databases-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(folder)
	archives, err := prepare(folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	auditLog = filepath.Join(folder, "audit.log")
	nodes, err := nodesWanted()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	status := testenv.Main(m, testenv.WithScheme(scheme), testenv.WithNodes(nodes, archives...), testenv.WithAuditLog(auditLog))
	whole := flag.Lookup("test.run").Value.String() == "" // all cases, and so all that the program does
	if err := checkRights(auditLog, whole); err != nil {
		fmt.Printf("FAIL  rights\n%v\n", err)
		tally.failed++
		status = max(status, 1)
	}
	fmt.Printf("%d passed, %d failed\n", tally.passed, tally.failed)
	return status
}

// nodesWanted is how many nodes the cluster has. One is for measuring: with more the scheduler chooses where a volume is, and
// takes a second for it.
func nodesWanted() (int, error) {
	switch number := os.Getenv("E2E_NODES"); number {
	case "":
		return 2, nil
	case "1", "2", "3":
		return int(number[0] - '0'), nil
	default:
		return 0, fmt.Errorf("E2E_NODES=%s: it must be 1, 2 or 3", number)
	}
}

// prepare builds the program and the images.
func prepare(folder string) (archives []string, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	program = filepath.Join(folder, "databases")
	build := exec.Command("go", "build", "-o", program, "./cmd/databases")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building the program: %w", err)
	}
	built, err := lines(root, "go", "run", "-C", "dev/cluster", ".", "build")
	if err != nil || len(built) != 1 {
		return nil, fmt.Errorf("building dev/cluster: %w", err)
	}
	kubectl = filepath.Join(built[0], "kubectl")
	archives, err = lines(root, "go", "run", "./dev/images", "-only", images)
	if err != nil || len(archives) == 0 {
		return nil, fmt.Errorf("making the images: %w", err)
	}
	return archives, nil
}

// lines runs a command and returns the lines that it prints.
func lines(folder string, argv ...string) ([]string, error) {
	command := exec.Command(argv[0], argv[1:]...)
	command.Dir, command.Stderr = folder, os.Stderr
	output, err := command.Output()
	return strings.Fields(string(output)), err
}

// begin starts a case: it prints a line when the case ends.
func begin(t *testing.T) {
	t.Helper()
	start := time.Now()
	t.Cleanup(func() {
		tally.Lock()
		defer tally.Unlock()
		word := "ok  "
		if t.Failed() {
			word = "FAIL"
			tally.failed++
		} else {
			tally.passed++
		}
		fmt.Printf("%s  %6.1f s  %s\n", word, time.Since(start).Seconds(), t.Name())
	})
}
