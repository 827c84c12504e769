package monitoring_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

// patience is how long a test waits for what should come soon.
const patience = time.Minute

func TestMain(m *testing.M) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(databasev1.AddToScheme(scheme))
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Main(m, testenv.WithScheme(scheme)))
}

// program is the real one, a process of its own, that serves its metrics.
type program struct {
	url    string
	otlp   *receiver
	stderr *testenv.Buffer
}

// start builds the program and runs it in a namespace, until the test ends. It serves its metrics and sends them too.
func start(t *testing.T, namespace string, server *postgrestest.Server) *program {
	t.Helper()
	folder := t.TempDir()
	binary := filepath.Join(folder, "databases")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/example/databases/cmd/databases")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, output)
	}
	dsn, err := server.WeakAdmin(t.Context(), "weak_admin")
	if err != nil {
		t.Fatal(err)
	}
	dsnFile := filepath.Join(folder, "dsn")
	if err := os.WriteFile(dsnFile, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{otlp: newReceiver(t), stderr: &testenv.Buffer{}}
	env := []string{
		"KUBECONFIG=" + testenv.Get(t).Kubeconfig, "CONTROLLER_NAMESPACE=" + namespace, "POD_NAMESPACE=" + namespace, "POD_NAME=databases-0",
		"POSTGRES_ADMIN_DSN_FILE=" + dsnFile, "POSTGRES_HOST=" + server.Host(), "POSTGRES_PORT=" + strconv.Itoa(server.Port()),
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://" + p.otlp.address, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_METRIC_EXPORT_INTERVAL=500",
		"OTEL_METRICS_EXPORTER=otlp,prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST=127.0.0.1",
	}
	for tries := 1; !p.run(t, binary, env); tries++ {
		if tries == 5 {
			t.Fatalf("each port was taken:\n%s", p.stderr.String())
		}
	}
	return p
}

// run runs the program, until the test ends, and returns when it serves its metrics; false where somebody else has taken
// the port.
func (p *program) run(t *testing.T, binary string, env []string) bool {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	p.url = "http://127.0.0.1:" + port + "/metrics"
	p.stderr.Reset()
	command := exec.Command(binary) // not bound to the test's context: it shall end in order
	command.Stderr = p.stderr
	command.Env = append(env, "OTEL_EXPORTER_PROMETHEUS_PORT="+port)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var failure error
	ended := make(chan struct{})
	go func() { failure = command.Wait(); close(ended) }()
	taken := false
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if <-ended; !taken && (failure != nil || t.Failed()) {
			t.Errorf("the program: %v\n%s", failure, p.stderr.String())
		}
	})
	eventually(t, "the program has the port, or has ended", func() bool {
		select {
		case <-ended:
			if taken = strings.Contains(p.stderr.String(), "address already in use"); !taken {
				t.Fatal("the program has ended")
			}
			return true
		default:
			return strings.Contains(p.stderr.String(), `"msg":"databases"`) // its first record, which comes after
		}
	})
	return !taken
}

// scrape reads the metrics as Prometheus does.
func (p *program) scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", p.url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// freePort is one that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
