package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/testenv"
)

func TestMain(m *testing.M) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	os.Exit(testenv.Main(m, testenv.WithScheme(scheme), testenv.WithComponents("etcd", "kube-apiserver")))
}

// result is what a run of the program left.
type result struct {
	status         int
	stdout, stderr string
}

func program(ctx context.Context, env map[string]string, args ...string) result {
	var stdout, stderr bytes.Buffer
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	status := run(ctx, args, lookup, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

func TestCommandLine(t *testing.T) {
	help := program(t.Context(), nil, "--help")
	if help.status != 0 || help.stderr != "" {
		t.Errorf("--help: %+v", help)
	}
	for _, v := range settings.Variables {
		if !strings.Contains(help.stdout, "  "+v.Name+" ") {
			t.Errorf("--help doesn't have %s", v.Name)
		}
	}
	if version := program(t.Context(), nil, "--version"); version.status != 0 || !strings.HasPrefix(version.stdout, "databases ") {
		t.Errorf("--version: %+v", version)
	}
	if got := program(t.Context(), nil, "--hlep"); got.status != 2 || got.stderr != "databases: unknown argument \"--hlep\"; see databases --help\n" {
		t.Errorf("an unknown argument: %+v", got)
	}
	if got := program(t.Context(), nil, "adopt", "--role", "x"); got.status != 2 ||
		got.stderr != "databases adopt: give --role, --namespace and --name, or --from-cluster; see databases adopt --help\n" {
		t.Errorf("adopt without its flags: %+v", got)
	}
	if got := program(t.Context(), nil, "adopt", "--help"); got.status != 0 || !strings.Contains(got.stdout, "--from-cluster") {
		t.Errorf("adopt --help: %+v", got)
	}
}

func TestBadSettingsExit78(t *testing.T) {
	got := program(t.Context(), map[string]string{"KUBECONFIG": testenv.Get(t).Kubeconfig, "CONTROLLER_WORKERS": "x", "POSTGRES_HOST": "db"})
	want := "databases: the settings are wrong; see databases --help\n" +
		"CONTROLLER_WORKERS must be a whole number from 1 to 100\n" +
		"POSTGRES_ADMIN_DSN_FILE is required where POSTGRES_HOST is set: the path of a file that holds the admin's DSN\n"
	if got.status != 78 || got.stderr != want || got.stdout != "" {
		t.Errorf("got %+v\nwant status 78, %q", got, want)
	}
	if got := program(t.Context(), nil, "adopt", "--from-cluster", "x"); got.status != 78 || !strings.Contains(got.stderr, "POSTGRES_ADMIN_DSN_FILE is required") {
		t.Errorf("adopt without settings: %+v", got)
	}
}

// TestRunAndStop starts the program as a process, has it make a database, and ends it with SIGTERM.
func TestRunAndStop(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "databases")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Stderr = &stderr
	for name, value := range environment(t, server, server.SuperuserDSN()) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "POSTGRES_PORT="+strconv.Itoa(server.Port()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := testenv.Get(t).Client()
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace(t, c), Name: "orders"}, Spec: v1alpha1.DatabaseSpec{Name: "orders"}}
	if err := c.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !meta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionReady); time.Sleep(50 * time.Millisecond) {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(db), db); err != nil || time.Now().After(deadline) {
			t.Fatalf("not ready within a minute: %+v, %v", db.Status, err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	log := stderr.String()
	if err != nil || !strings.Contains(log, `"msg":"stopped"`) || !strings.Contains(log, `"changes":["CREATE ROLE orders"`) {
		t.Errorf("%v: %s", err, log)
	}
	db.Finalizers = nil
	if err := c.Update(t.Context(), db); err != nil {
		t.Error(err)
	}
}

func environment(t *testing.T, server *postgrestest.Server, dsn string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"KUBECONFIG": testenv.Get(t).Kubeconfig, "POSTGRES_ADMIN_DSN_FILE": file, "POSTGRES_HOST": server.Host()}
}

// TestAdopt hands over what was made by hand, and what a cluster that is no more has left.
func TestAdopt(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 16})
	env := environment(t, server, server.SuperuserDSN())
	old := postgres.Claim{Cluster: "old", Group: "postgres.example.com", Namespace: "team", Name: "orders", UID: "u"}
	if err := server.Exec(t.Context(), "CREATE ROLE by_hand", "CREATE ROLE orders", "COMMENT ON ROLE orders IS '"+old.String()+"'"); err != nil {
		t.Fatal(err)
	}
	comment := func(role string) string {
		rows, err := server.Query(t.Context(), "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = '"+role+"'")
		if err != nil {
			t.Fatal(err)
		}
		return rows[0][0]
	}
	got := program(t.Context(), env, "adopt", "--role", "by_hand", "--namespace", "team", "--name", "mine", "--cluster", "new")
	want := "databases/v1 cluster=new group=postgres.example.com namespace=team name=mine"
	if got.status != 0 || got.stdout != "role by_hand: "+want+"\n" || comment("by_hand") != want {
		t.Errorf("one role: %+v; comment %q", got, comment("by_hand"))
	}
	got = program(t.Context(), env, "adopt", "--role", "orders", "--namespace", "other", "--name", "mine")
	if got.status != 1 || got.stderr != "databases: The role \"orders\" is claimed already: "+old.String()+"\n" || comment("orders") != old.String() {
		t.Errorf("a claimed role: %+v; comment %q", got, comment("orders"))
	}
	got = program(t.Context(), env, "adopt", "--from-cluster", "old", "--namespace", "elsewhere")
	if got.status != 0 || got.stdout != "0 adopted, 0 failed\n" {
		t.Errorf("another namespace: %+v", got)
	}
	got = program(t.Context(), env, "adopt", "--from-cluster", "old")
	if got.status != 0 || !strings.HasSuffix(got.stdout, "1 adopted, 0 failed\n") || !strings.HasSuffix(comment("orders"), " group=postgres.example.com namespace=team name=orders") {
		t.Errorf("the old cluster: %+v; comment %q", got, comment("orders"))
	}
	if strings.Contains(comment("orders"), "cluster=old") || strings.Contains(comment("orders"), "uid=") {
		t.Errorf("comment %q", comment("orders"))
	}
}
