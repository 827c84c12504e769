package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/postgres/postgrestest"
	"github.com/example/databases/internal/testenv"
)

// binary is the program, built once for the tests of this package.
var binary = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "databases-test-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "databases")
	if out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput(); err != nil { //nolint:noctx // once for all tests
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

// replica is the program as a process, which believes to be in a pod.
type replica struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	probes string
	log    *testenv.Buffer
	ended  chan error
}

// pod is what a replica finds in its pod: files that may be replaced, and who it is.
type pod struct {
	t                    *testing.T
	namespace            string
	token, ca, dsn, cert string
	env                  []string
}

// newPod makes the files, a service account that may do everything, and a token of it that lives as long as the Secret token-1.
func newPod(t *testing.T, server *postgrestest.Server) *pod {
	t.Helper()
	return newPodWith(t, server, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
}

func newPodWith(t *testing.T, server *postgrestest.Server, rules ...rbacv1.PolicyRule) *pod {
	t.Helper()
	c := testenv.Get(t).Client()
	p := &pod{t: t, namespace: testenv.Namespace(t, c)}
	folder := t.TempDir()
	p.token, p.ca = filepath.Join(folder, "token"), filepath.Join(folder, "ca.crt")
	p.dsn, p.cert = filepath.Join(folder, "dsn"), filepath.Join(folder, "tls.pem")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "databases"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: account.Name}},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}, Rules: rules}
	for _, o := range []client.Object{account, role, binding} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = c.Delete(context.WithoutCancel(t.Context()), binding)
		_ = c.Delete(context.WithoutCancel(t.Context()), role)
	})
	config, err := clientcmd.BuildConfigFromFlags("", testenv.Get(t).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(config.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	p.write(p.ca, string(config.CAData))
	p.write(p.token, p.newToken("token-1"))
	p.write(p.dsn, server.SuperuserDSN())
	p.write(p.cert, testenv.SelfSigned(t, 1))
	p.env = []string{
		"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port, "KUBERNETES_CA_FILE=" + p.ca, "KUBERNETES_TOKEN_FILE=" + p.token,
		"POD_NAMESPACE=" + p.namespace, "PROBES_TLS_PEM_FILE=" + p.cert, "CONTROLLER_NAMESPACE=" + p.namespace,
		"POSTGRES_ADMIN_DSN_FILE=" + p.dsn, "POSTGRES_HOST=" + server.Host(), "POSTGRES_PORT=" + strconv.Itoa(server.Port()),
	}
	return p
}

func (p *pod) write(file, content string) {
	p.t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		p.t.Fatal(err)
	}
}

// newToken makes a token that is good until the Secret of that name is deleted.
func (p *pod) newToken(name string) string {
	p.t.Helper()
	c := testenv.Get(p.t).Client()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	if err := c.Create(p.t.Context(), secret); err != nil {
		p.t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: name, UID: secret.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "databases"}}
	if err := c.SubResource("token").Create(p.t.Context(), account, request); err != nil {
		p.t.Fatal(err)
	}
	return request.Status.Token
}

func (p *pod) start(name string) *replica {
	t := p.t
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it doesn't wait
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, name: name, probes: free.Addr().String(), log: &testenv.Buffer{}, ended: make(chan error, 1)}
	_ = free.Close()
	r.cmd = exec.Command(file) //nolint:noctx // it is ended by its signals
	r.cmd.Env = append(p.env, "POD_NAME="+name, "PROBES_ADDR="+r.probes)
	r.cmd.Stderr = r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// probe asks as the kubelet does; 0 where nobody answers.
func (r *replica) probe(path string) (status int, serial int64) {
	// Nothing checks it, as the kubelet does.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "https://"+r.probes+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func (r *replica) ready() bool { status, _ := r.probe("/readyz"); return status == http.StatusOK }

// eventually waits for a minute at most.
func eventually(t *testing.T, what string, done func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !done() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begin)
}

func (p *pod) leader() string {
	var lease coordinationv1.Lease
	if err := testenv.Get(p.t).Client().Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "databases-controller"}, &lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (p *pod) create(name string, annotations ...string) {
	p.t.Helper()
	db := &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Annotations: map[string]string{}},
		Spec:       v1alpha1.DatabaseSpec{Name: name, DeletionPolicy: v1alpha1.DeletionPolicyDelete},
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		db.Annotations[annotations[i]] = annotations[i+1]
	}
	if err := testenv.Get(p.t).Client().Create(p.t.Context(), db); err != nil {
		p.t.Fatal(err)
	}
}

// passwords has the password of each Database that is Ready.
func (p *pod) passwords() map[string]string {
	p.t.Helper()
	c := testenv.Get(p.t).Client()
	var list v1alpha1.DatabaseList
	if err := c.List(p.t.Context(), &list, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	found := map[string]string{}
	for _, db := range list.Items {
		var secret corev1.Secret
		if meta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionReady) {
			if err := c.Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: db.SecretName()}, &secret); err != nil {
				p.t.Fatal(err)
			}
			found[db.Name] = string(secret.Data["password"])
		}
	}
	return found
}

// clear deletes all Databases while a replica runs.
func (p *pod) clear() {
	p.t.Helper()
	c := testenv.Get(p.t).Client()
	if err := c.DeleteAllOf(p.t.Context(), &v1alpha1.Database{}, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	var list v1alpha1.DatabaseList
	eventually(p.t, "all Databases gone", func() bool {
		return c.List(p.t.Context(), &list, client.InNamespace(p.namespace)) == nil && len(list.Items) == 0
	})
}

// TestTheStandbyGoesOn ends the leader in order and by force, in the middle of work.
func TestTheStandbyGoesOn(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 17})
	p := newPod(t, server)
	first := p.start("databases-a")
	eventually(t, "the first leads", func() bool { return p.leader() == first.name && first.ready() })
	second := p.start("databases-b")
	eventually(t, "the standby is ready", second.ready)
	if p.leader() != first.name {
		t.Fatalf("%s leads, want %s", p.leader(), first.name)
	}
	if strings.Contains(second.log.String(), "Starting workers") {
		t.Errorf("the standby reconciles:\n%s", second.log)
	}
	const each = 30
	create := func(prefix string) {
		for i := range each {
			p.create(fmt.Sprintf("%s%d", prefix, i))
		}
	}
	create("before")
	eventually(t, "all that were there before", func() bool { return len(p.passwords()) == each })
	before := p.passwords()

	create("term")
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := <-first.ended; err != nil || time.Since(begin) > 25*time.Second {
		t.Fatalf("the leader ended %v after SIGTERM: %v\n%s", time.Since(begin), err, first.log)
	}
	if log := first.log.String(); strings.Contains(log, `"level":"ERROR"`) || !strings.Contains(log, `"msg":"stopped"`) {
		t.Errorf("an end in order says:\n%s", log)
	}
	eventually(t, "the standby leads", func() bool { return p.leader() == second.name })
	t.Logf("SIGTERM: the standby leads after %v", time.Since(begin))
	eventually(t, "all that came meanwhile", func() bool { return len(p.passwords()) == 2*each })

	third := p.start("databases-c")
	eventually(t, "the new standby is ready", third.ready)
	create("kill")
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	eventually(t, "the standby leads", func() bool { return p.leader() == third.name })
	t.Logf("kill -9: the standby leads after %v", time.Since(begin))
	eventually(t, "all that came meanwhile", func() bool { return len(p.passwords()) == 3*each })
	after := p.passwords()
	for name, password := range before {
		if after[name] != password {
			t.Errorf("%s has another password", name)
		}
	}
	p.clear()
}

// TestFilesAreReplaced replaces all files of the pod while the program runs: certificate, token and DSN. The old token and
// the old password are no longer good then.
func TestFilesAreReplaced(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{Major: 16})
	if err := server.Exec(t.Context(), "CREATE ROLE admin LOGIN CREATEDB CREATEROLE PASSWORD 'the old one'"); err != nil {
		t.Fatal(err)
	}
	dsn := func(password string) string {
		return fmt.Sprintf("host=%s port=%d user=admin password='%s' dbname=postgres", server.Host(), server.Port(), password)
	}
	p := newPod(t, server)
	p.write(p.dsn, dsn("the old one"))
	r := p.start("databases-0")
	eventually(t, "the program is ready", func() bool { status, serial := r.probe("/readyz"); return status == http.StatusOK && serial == 1 })
	p.create("first")
	eventually(t, "the first Database", func() bool { return len(p.passwords()) == 1 })

	p.write(p.cert, testenv.SelfSigned(t, 2))
	p.write(p.token, p.newToken("token-2"))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "token-1"}}
	if err := testenv.Get(t).Client().Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := server.Exec(t.Context(), "ALTER ROLE admin PASSWORD 'the new one'",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'admin'"); err != nil {
		t.Fatal(err)
	}
	p.write(p.dsn, dsn("the new one"))
	eventually(t, "the new certificate", func() bool { _, serial := r.probe("/healthz"); return serial == 2 })
	time.Sleep(12 * time.Second) // the API server remembers for ten seconds that a token was good
	p.create("second")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the program's log:\n%s", r.log)
		}
	})
	took := eventually(t, "a Database by the new token and the new DSN", func() bool { return len(p.passwords()) == 2 })
	t.Logf("Ready %v after it was created", took)
	select {
	case err := <-r.ended:
		t.Fatalf("the program ended: %v\n%s", err, r.log)
	default:
	}
	p.clear()
}

// TestALostLeaseEndsAtOnce: a leader that can't renew its Lease, as its token isn't good any more, doesn't go on with what it was
// doing: another one may lead by now.
func TestALostLeaseEndsAtOnce(t *testing.T) {
	p := newPod(t, postgrestest.Start(t, postgrestest.Options{Major: 15}))
	p.env = append(p.env, "FAULT_TRUSTED_NAMESPACE_PREFIX="+p.namespace, "FAULT_MAX_DELAY=5m")
	r := p.start("databases-0")
	eventually(t, "the program leads", func() bool { return p.leader() == r.name && r.ready() })
	p.create("held", v1alpha1.FailureScenarioAnnotation, "provision=delay(5m)")
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "held"}}
	c := testenv.Get(t).Client()
	eventually(t, "its work has begun", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(db), db) == nil && len(db.Finalizers) > 0
	})
	if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "token-1"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Lease is lost", func() bool { return strings.Contains(r.log.String(), "Failed to renew lease") })
	begin := time.Now()
	err := <-r.ended
	if took := time.Since(begin); took > 8*time.Second { // a reconcile told to stop in order has 17 s
		t.Errorf("it ended %v after the Lease was lost", took)
	}
	if r.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(r.log.String(), "databases: the Lease was lost: ") {
		t.Errorf("%v:\n%s", err, r.log)
	}
	db.Finalizers = nil
	if err := c.Update(t.Context(), db); err != nil {
		t.Error(err)
	}
}

// TestNotReadyBeforeItHasSeenAll: without the right to list what it watches the program is alive and isn't ready; it becomes
// ready when it is given the right.
func TestNotReadyBeforeItHasSeenAll(t *testing.T) {
	p := newPodWith(t, postgrestest.Start(t, postgrestest.Options{Major: 15}),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}})
	r := p.start("databases-0")
	eventually(t, "the program is alive", func() bool { status, _ := r.probe("/healthz"); return status == http.StatusOK })
	for range 20 {
		if status, _ := r.probe("/readyz"); status != http.StatusInternalServerError {
			t.Fatalf("/readyz answers %d", status)
		}
		time.Sleep(100 * time.Millisecond)
	}
	c := testenv.Get(t).Client()
	role := &rbacv1.ClusterRole{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: p.namespace}, role); err != nil {
		t.Fatal(err)
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	if err := c.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program is ready", r.ready)
}
