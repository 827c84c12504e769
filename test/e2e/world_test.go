//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// patience is how long a case waits for what comes in seconds on an idle machine.
const patience = 3 * time.Minute

// rollPatience is how long it waits for a whole roll: the members start one after the other.
const rollPatience = 2 * patience

// world is a namespace, the program watching it, and kubectl.
type world struct {
	*testing.T
	client.Client
	namespace  string
	kubeconfig string // the program's
	env        []string
	controller *exec.Cmd
	log        buffer
	rightsGone int64 // where the audit log was when the case took the program's rights away; 0 where it didn't
}

func newWorld(t *testing.T) *world {
	t.Helper()
	begin(t)
	env := testenv.Get(t)
	w := &world{T: t, Client: env.Client(), namespace: testenv.Namespace(t, env.Client()), kubeconfig: programKubeconfig(t)}
	t.Cleanup(func() {
		w.kill(syscall.SIGTERM)
		w.clean()
		if t.Failed() {
			t.Logf("the program's log:\n%s", w.log.tail(60))
		}
	})
	return w
}

// clean lets everything go, and the volumes with it, so that the next case has the machine to itself.
func (w *world) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), time.Minute)
	defer cancel()
	var all databasev1.DatabaseList
	if err := w.List(ctx, &all, client.InNamespace(w.namespace)); err != nil {
		w.Error(err)
	}
	for i := range all.Items {
		all.Items[i].Finalizers = nil
		_ = w.Update(ctx, &all.Items[i])
		_ = w.Delete(ctx, &all.Items[i])
	}
	_ = w.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(w.namespace))
	_ = w.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(w.namespace), client.GracePeriodSeconds(0))
}

// start starts the program outside the cluster, as `make run` does.
func (w *world) start(env ...string) {
	w.Helper()
	w.controller = exec.Command(program)
	w.controller.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig, "CONTROLLER_NAMESPACE="+w.namespace, "CONTROLLER_RESYNC=1h")
	w.controller.Env = append(append(w.controller.Env, w.env...), env...)
	w.controller.Stderr = &w.log
	w.controller.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.controller.Start(); err != nil {
		w.Fatal(err)
	}
}

// kill ends the program by a signal and waits for its end.
func (w *world) kill(signal os.Signal) {
	w.Helper()
	if w.controller == nil {
		return
	}
	_ = w.controller.Process.Signal(signal)
	err := w.controller.Wait()
	w.controller = nil
	if signal == syscall.SIGTERM && err != nil {
		w.Errorf("the program ended with %v", err)
	}
}

// manifest is the lab's, with the given image.
const manifest = `apiVersion: database.example.com/v1
kind: Database
metadata:
  name: my-database
spec:
  image: postgres:15
  replicas: 1
  databaseName: mydb
  username: admin
  storage:
    size: 10Gi
`

func (w *world) create(name string, change ...func(*databasev1.Database)) *databasev1.Database {
	w.Helper()
	db := &databasev1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: databasev1.DatabaseSpec{
			Image: "postgres:15", DatabaseName: "mydb", Username: "admin", Storage: databasev1.Storage{Size: "1Gi"},
		},
	}
	for _, f := range change {
		f(db)
	}
	if err := w.Create(w.Context(), db); err != nil {
		w.Fatal(err)
	}
	return db
}

// change updates the Database, again where the controller was faster.
func (w *world) change(name string, f func(*databasev1.Database)) {
	w.Helper()
	w.eventually("the Database "+name+" is changed", func() bool {
		db := &databasev1.Database{}
		w.get(name, db)
		f(db)
		return w.Update(w.Context(), db) == nil
	})
}

func (w *world) ready(name string) *databasev1.Database {
	w.Helper()
	return w.condition(name, databasev1.ConditionReady, databasev1.ReasonProvisioned)
}

// settled waits until all that the spec wishes has been carried out and the Database is ready.
func (w *world) settled(name string) *databasev1.Database {
	w.Helper()
	w.conditionWithin(rollPatience, name, databasev1.ConditionUpToDate, databasev1.ReasonUpToDate)
	return w.conditionWithin(rollPatience, name, databasev1.ConditionReady, databasev1.ReasonProvisioned)
}

// condition waits until the condition has the reason for the object's present generation.
func (w *world) condition(name, kind, reason string) *databasev1.Database {
	w.Helper()
	return w.conditionWithin(patience, name, kind, reason)
}

func (w *world) conditionWithin(limit time.Duration, name, kind, reason string) *databasev1.Database {
	w.Helper()
	db := &databasev1.Database{}
	w.within(limit, fmt.Sprintf("%s of %s has the reason %s", kind, name, reason), func() bool {
		w.get(name, db)
		c := apimeta.FindStatusCondition(db.Status.Conditions, kind)
		return c != nil && c.Reason == reason && c.ObservedGeneration == db.Generation
	}, func() string { return fmt.Sprintf("%+v", db.Status) }, func() string { return w.kubectl("get", "pods,pvc,events") })
	return db
}

// Get and List ask an API server again that couldn't answer for a moment: on a busy machine its etcd may be slow.
func (w *world) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return patiently(func() error { return w.Client.Get(ctx, key, o, options...) })
}

// List is as Get.
func (w *world) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return patiently(func() error { return w.Client.List(ctx, list, options...) })
}

// patiently repeats a read for half a minute while the API server is to blame.
func patiently(read func() error) error {
	times := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Steps: 13}
	return retry.OnError(times, func(err error) bool {
		return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
			apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
			utilnet.IsConnectionReset(err) || utilnet.IsConnectionRefused(err) || utilnet.IsHTTP2ConnectionLost(err)
	}, read)
}

func (w *world) get(name string, o client.Object) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) gone(name string, o client.Object) {
	w.Helper()
	w.eventually(fmt.Sprintf("%T %s is gone", o, name), func() bool {
		return apierrors.IsNotFound(w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o))
	})
}

func (w *world) eventually(what string, ok func() bool, explain ...func() string) {
	w.Helper()
	w.within(patience, what, ok, explain...)
}

func (w *world) within(limit time.Duration, what string, ok func() bool, explain ...func() string) {
	w.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, f := range explain {
				w.Log(f())
			}
			w.Fatalf("it never happened that %s", what)
		}
	}
}

// kubectl runs kubectl in the case's namespace and fails the case where that fails.
func (w *world) kubectl(arguments ...string) string {
	w.Helper()
	output, err := w.tryKubectl("", arguments...)
	if err != nil {
		w.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

func (w *world) tryKubectl(input string, arguments ...string) (string, error) {
	command := exec.CommandContext(w.Context(), kubectl, append([]string{"--namespace", w.namespace}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig)
	command.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	command.Stderr = &said // kubectl warns there of its own streams now and then
	output, err := command.Output()
	if err != nil {
		output = append(output, said.Bytes()...)
	}
	return strings.TrimSpace(string(output)), err
}

// clientPod is a pod with psql, apart from all Databases.
func (w *world) clientPod() {
	w.Helper()
	w.clientPodOn("")
}

// clientPodOn puts it on a node; on any for none.
func (w *world) clientPodOn(node string) {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "client"},
		Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{
			Name: "psql", Image: "postgres:15", Command: []string{"sleep", "infinity"},
		}}},
	}
	if err := w.Create(w.Context(), pod); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	w.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=2m")
}

// sql runs statements as the application does: with the Secret's uri, through the Service, from a pod of its own.
func (w *world) sql(name string, statements ...string) string {
	w.Helper()
	output, err := w.trySQL(name, statements...)
	if err != nil {
		w.Fatalf("psql: %v\n%s", err, output)
	}
	return output
}

func (w *world) trySQL(name string, statements ...string) (string, error) {
	w.Helper()
	return w.psql(string(w.secret(name).Data["uri"]), statements...)
}

func (w *world) psql(uri string, statements ...string) (string, error) {
	w.Helper()
	w.clientPod()
	// The uri is in standard input, as it has a password.
	return w.tryKubectl(uri+"\n"+strings.Join(statements, "\n")+"\n", "exec", "-i", "client", "--",
		"sh", "-c", `read -r uri; exec psql --no-psqlrc --quiet -At -v ON_ERROR_STOP=1 "$uri"`)
}

func (w *world) secret(name string) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{}
	w.get(name+databasev1.SecretSuffix, secret)
	return secret
}

// pods are the Database's pods by name, with their uids.
func (w *world) pods(name string) map[string]string {
	w.Helper()
	var list corev1.PodList
	if err := w.List(w.Context(), &list, client.InNamespace(w.namespace), client.MatchingLabels{"app": "database", "database": name}); err != nil {
		w.Fatal(err)
	}
	all := map[string]string{}
	for i := range list.Items {
		all[list.Items[i].Name] = identity(&list.Items[i])
	}
	return all
}

// identity is another one where a pod was made again or one of its containers started again.
func identity(pod *corev1.Pod) string {
	restarts := 0
	for _, s := range pod.Status.ContainerStatuses {
		restarts += int(s.RestartCount)
	}
	return fmt.Sprintf("%s, %d restarts", pod.UID, restarts)
}

// request is a line of the API server's audit log.
type request struct {
	Verb, RequestURI, UserAgent, Stage string
	User                               struct{ Username string }
	ObjectRef                          reference
	ResponseStatus                     struct {
		Code    int
		Message string
	}
}

// requests are those of the audit log since the mark.
func (w *world) requests(mark int64) (all []request) {
	w.Helper()
	content, err := os.ReadFile(auditLog)
	if err != nil {
		w.Fatal(err)
	}
	for line := range bytes.Lines(content[mark:]) {
		var r request
		if json.Unmarshal(line, &r) == nil && r.Stage == "ResponseComplete" {
			all = append(all, r)
		}
	}
	return all
}

// writes are the program's writes since the mark. A connection through the API server to a pod, which a program outside
// the cluster needs, is logged as a create and isn't one.
func (w *world) writes(mark int64) (all []string) {
	w.Helper()
	for _, r := range w.requests(mark) {
		if strings.HasPrefix(r.UserAgent, "databases/") && !strings.HasSuffix(r.RequestURI, "/portforward") && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			all = append(all, r.Verb+" "+r.RequestURI)
		}
	}
	return all
}

// reads counts the program's reads of superusers' Secrets since the mark: one for each look at a Database.
func (w *world) reads(mark int64) (n int) {
	w.Helper()
	for _, r := range w.requests(mark) {
		if strings.HasPrefix(r.UserAgent, "databases/") && r.Verb == "get" && strings.HasSuffix(r.RequestURI, "-superuser") {
			n++
		}
	}
	return n
}

// denied are the requests of a user that its rights don't cover, since the mark.
func (w *world) denied(mark int64, user string) (all []string) {
	w.Helper()
	seen := false
	for _, r := range w.requests(mark) {
		seen = seen || r.User.Username == user
		if r.User.Username == user && r.ResponseStatus.Code == http.StatusForbidden {
			all = append(all, r.Verb+" "+r.RequestURI)
		}
	}
	if !seen {
		w.Errorf("the audit log has no request of %s", user)
	}
	return all
}

// mark is the present end of the audit log.
func (w *world) mark() int64 {
	w.Helper()
	info, err := os.Stat(auditLog)
	if err != nil {
		w.Fatal(err)
	}
	return info.Size()
}

// buffer is a program's log.
type buffer struct{ testenv.Buffer }

func (b *buffer) tail(lines int) string {
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(b.String()), "\n"), func(line string) bool {
		return strings.Contains(line, `"msg":"Start`) || strings.Contains(line, `"msg":"Stop`)
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
