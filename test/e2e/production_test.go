//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/testenv"
)

// deployNamespace is where deploy puts the program.
const deployNamespace = "databases"

// script runs a script of deploy/ as its user does.
func (w *world) script(name string, env ...string) (string, error) {
	w.Helper()
	command := exec.CommandContext(w.Context(), "../../deploy/"+name)
	command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	command.Env = append(command.Env, env...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// sharedServer starts a PostgreSQL server in the case's namespace and returns a DSN of its superuser.
func (w *world) sharedServer(password string) (dsn string) {
	w.Helper()
	labels := map[string]string{"app": "shared-postgres"}
	objects := []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shared-postgres"}, StringData: map[string]string{"password": password}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shared-postgres"},
			Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 5432}}},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shared-postgres", Labels: labels},
			Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(1)),
				SecurityContext:               &corev1.PodSecurityContext{RunAsUser: new(int64(999)), FSGroup: new(int64(999))},
				Containers: []corev1.Container{{
					Name: "postgres", Image: "postgres:15",
					Command: []string{"sh", "-ec", `cd /tmp
initdb -D data -A scram-sha-256 --pwfile=/etc/password/password >/dev/null
echo "host all all all scram-sha-256" >>data/pg_hba.conf
exec postgres -D data -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off`},
					ReadinessProbe: &corev1.Probe{
						PeriodSeconds: 1,
						ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(5432)}},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "password", MountPath: "/etc/password"}},
				}},
				Volumes: []corev1.Volume{{Name: "password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shared-postgres"}}}},
			},
		},
	}
	for _, o := range objects {
		if err := w.Create(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
	w.kubectl("wait", "--for=condition=Ready", "pod/shared-postgres", "--timeout=2m")
	return w.adminDSN("postgres", password)
}

// adminDSN is libpq's form, which takes a password as it is.
func (w *world) adminDSN(user, password string) string {
	return fmt.Sprintf("host=shared-postgres.%s.svc port=5432 user=%s password=%s dbname=postgres sslmode=disable", w.namespace, user, password)
}

// deployShared deploys the program, with a server for shared Databases.
func (w *world) deployShared(dsn string) {
	w.Helper()
	w.kubectl("create", "namespace", deployNamespace)
	w.Cleanup(func() { w.cleanShared() })
	w.putSecret("databases-admin", "dsn", dsn)
	w.kubectl("create", "configmap", "databases-shared-server", "-n", deployNamespace, "--from-literal=POSTGRES_HOST=shared-postgres."+w.namespace+".svc")
	if output, err := w.script("deploy.sh", "OVERLAY=shared-server"); err != nil {
		w.Fatalf("%v: %s", err, output)
	}
}

// putSecret makes or changes a Secret of one key where the program is deployed.
func (w *world) putSecret(name, key, value string) {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: deployNamespace, Name: name}, Data: map[string][]byte{key: []byte(value)}}
	if w.Update(w.Context(), secret) == nil {
		return
	}
	if err := w.Create(w.Context(), secret); err != nil {
		w.Fatal(err)
	}
}

// cleanShared lets the shared Databases of the case go and takes the program away.
func (w *world) cleanShared() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), 2*time.Minute)
	defer cancel()
	since := w.mark()
	if w.rightsGone > 0 {
		since = w.rightsGone
	}
	defer w.changingRightsSince(since)()
	if w.Failed() {
		command := exec.CommandContext(ctx, kubectl, "logs", "-n", deployNamespace, "-l", "app.kubernetes.io/name=databases", "--tail=40", "--prefix")
		command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig)
		output, _ := command.CombinedOutput()
		w.Logf("the replicas' logs:\n%s", output)
	}
	var all v1alpha1.DatabaseList
	if err := w.List(ctx, &all, client.InNamespace(w.namespace)); err != nil {
		w.Error(err)
	}
	for i := range all.Items {
		all.Items[i].Finalizers = nil
		_ = w.Update(ctx, &all.Items[i])
		_ = w.Delete(ctx, &all.Items[i])
	}
	for _, arguments := range [][]string{
		{"delete", "namespace", deployNamespace, "--ignore-not-found", "--timeout=2m"},
		{"delete", "clusterrole,clusterrolebinding", "databases", "--ignore-not-found"},
	} {
		command := exec.CommandContext(ctx, kubectl, arguments...)
		command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig)
		if output, err := command.CombinedOutput(); err != nil {
			w.Errorf("kubectl %v: %v\n%s", arguments, err, output)
		}
	}
}

func (w *world) createShared(name string) {
	w.Helper()
	db := &v1alpha1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       v1alpha1.DatabaseSpec{Name: name, DeletionPolicy: v1alpha1.DeletionPolicyDelete},
	}
	if err := w.Create(w.Context(), db); err != nil {
		w.Error(err) // from a stream beside the test
	}
}

// stream creates n shared Databases, ten a second. The function that it returns waits until all are Ready.
func (w *world) stream(prefix string, n int) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			w.createShared(fmt.Sprintf("%s%d", prefix, i))
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() {
		w.Helper()
		<-done
		w.eventually("all of "+prefix+"* are Ready", func() bool { return len(w.sharedPasswords(prefix)) == n })
	}
}

// sharedPasswords has the password of each shared Database that is Ready and whose name begins so.
func (w *world) sharedPasswords(prefix string) map[string]string {
	w.Helper()
	var list v1alpha1.DatabaseList
	if err := w.List(w.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.Fatal(err)
	}
	found := map[string]string{}
	for i := range list.Items {
		db := &list.Items[i]
		if !strings.HasPrefix(db.Name, prefix) || !apimeta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionReady) {
			continue
		}
		var secret corev1.Secret
		w.get(db.SecretName(), &secret)
		found[db.Name] = string(secret.Data["password"])
	}
	return found
}

// leader is the pod that holds the Lease, and when it took it.
func (w *world) leader() (pod, since string) {
	w.Helper()
	output, err := w.tryKubectl("", "get", "lease", "databases-controller", "-n", deployNamespace, "-o", "jsonpath={.spec.holderIdentity} {.spec.acquireTime}")
	if err != nil {
		return "", ""
	}
	pod, since, _ = strings.Cut(output, " ")
	return pod, since
}

// works waits until somebody carries out a new wish.
func (w *world) works(name string) time.Duration {
	w.Helper()
	begin := time.Now()
	w.createShared(name)
	w.eventually(name+" is Ready", func() bool { return len(w.sharedPasswords(name)) == 1 })
	return time.Since(begin)
}

// killProcess sends SIGKILL to the program in a pod: by its environment, which names the pod.
func (w *world) killProcess(pod string) {
	w.Helper()
	node := testenv.Get(w).Node(w.kubectl("get", "pod", pod, "-n", deployNamespace, "-o", "jsonpath={.spec.nodeName}"))
	output, err := node.Exec(w.Context(),
		"sh", "-c", `for p in /proc/[0-9]*; do if tr '\0' '\n' <$p/environ 2>/dev/null | grep -qx "POD_NAME=$0"; then kill -9 ${p#/proc/} && echo killed; fi; done`, pod)
	if err != nil || !strings.Contains(output, "killed") {
		w.Fatalf("killing %s: %v\n%s", pod, err, output)
	}
}

// TestLeaderEnds ends the leader in three ways, each in the middle of work: told to, killed, and gone with its pod.
func TestLeaderEnds(t *testing.T) {
	w := newWorld(t)
	w.deployShared(w.sharedServer("a-password-of-the-test"))
	w.works("orders")
	w.stream("before", 10)()
	before := w.sharedPasswords("")
	for _, c := range []struct {
		name string
		end  func(pod string)
	}{
		{"sigterm", func(pod string) { w.kubectl("delete", "pod", pod, "-n", deployNamespace, "--wait=false") }},
		{"kill", w.killProcess},
		{"gone", func(pod string) {
			w.kubectl("delete", "pod", pod, "-n", deployNamespace, "--grace-period=0", "--force", "--wait=false")
		}},
	} {
		w.kubectl("rollout", "status", "deployment/databases", "-n", deployNamespace, "--timeout=2m")
		pod, since := w.leader()
		wait := w.stream(c.name, 20)
		time.Sleep(500 * time.Millisecond)
		begin := time.Now()
		c.end(pod)
		var next string
		w.eventually("somebody leads after "+c.name, func() bool {
			now, at := w.leader()
			next = now
			// After kill -9 the kubelet starts the container again, and it holds the Lease still, under the pod's name.
			return now != "" && (now != pod || at != since || c.name == "kill" && w.restarts(pod) > 0)
		})
		led := time.Since(begin)
		took := w.works("after-" + c.name)
		fmt.Printf("      leader ended by %s: %s leads %.1f s later; a Database made then is Ready after %.1f s\n", c.name, which(next == pod), led.Seconds(), took.Seconds())
		wait()
	}
	after := w.sharedPasswords("")
	for name, password := range before {
		if after[name] != password {
			t.Errorf("%s has another password", name)
		}
	}
	// A container that doesn't run yet has no log, and the last leader has just been followed by a new pod.
	w.kubectl("rollout", "status", "deployment/databases", "-n", deployNamespace, "--timeout=2m")
	if log := w.kubectl("logs", "-n", deployNamespace, "-l", "app.kubernetes.io/name=databases", "--tail=-1"); strings.Contains(log, "panic") {
		t.Errorf("a replica says:\n%s", log)
	}
}

func which(same bool) string {
	if same {
		return "the same pod"
	}
	return "the other pod"
}

func (w *world) restarts(pod string) (n int32) {
	w.Helper()
	var p corev1.Pod
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: deployNamespace, Name: pod}, &p); err != nil {
		return 0
	}
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// TestRolloutLosesNothing replaces the program by another template while Databases come, and lets it be evicted: at each moment
// as many replicas are ready as were before, and each Database becomes Ready.
func TestRolloutLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.deployShared(w.sharedServer("a-password-of-the-test"))
	w.eventually("somebody leads", func() bool { return w.leaderNow() != "" })
	before := w.leaderNow()
	wait := w.stream("rollout", 50)
	w.kubectl("rollout", "restart", "deployment/databases", "-n", deployNamespace)
	least := 2
	w.eventually("the rollout ends", func() bool {
		var status struct {
			Metadata struct{ Generation int }
			Status   struct{ ObservedGeneration, ReadyReplicas, UpdatedReplicas, Replicas int }
		}
		if err := json.Unmarshal([]byte(w.kubectl("get", "deployment", "databases", "-n", deployNamespace, "-o", "json")), &status); err != nil {
			t.Fatal(err)
		}
		least = min(least, status.Status.ReadyReplicas)
		return status.Status.ObservedGeneration >= status.Metadata.Generation && status.Status.UpdatedReplicas == 2 && status.Status.Replicas == 2 && status.Status.ReadyReplicas == 2
	})
	if least < 2 {
		t.Errorf("%d replicas were ready at one moment", least)
	}
	wait()
	w.eventually("a new pod leads", func() bool { now := w.leaderNow(); return now != "" && now != before })
	w.eventually("the budget allows one disruption", func() bool {
		return w.kubectl("get", "pdb", "-n", deployNamespace, "-o", "jsonpath={.items[*].status.disruptionsAllowed}") == "1"
	})
}

func (w *world) leaderNow() string { pod, _ := w.leader(); return pod }

// TestFilesInPods replaces what is mounted: the probes' certificate, and the admin's DSN after its password was changed in
// PostgreSQL. No pod starts again.
func TestFilesInPods(t *testing.T) {
	w := newWorld(t)
	super := w.sharedServer("a-password-of-the-test")
	run := func(statement string) {
		t.Helper()
		if output, err := w.psql(super, statement); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	run("CREATE ROLE databases_admin LOGIN CREATEDB CREATEROLE PASSWORD 'old';")
	w.deployShared(w.adminDSN("databases_admin", "old"))
	w.works("first")
	restarts := w.kubectl("get", "pods", "-n", deployNamespace, "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount}\n{end}")
	var serial string
	var failed error
	why := func() string { return fmt.Sprint("the last look at the certificate: ", failed) }
	w.eventually("the probes' certificate is seen", func() bool {
		serial, failed = w.certificate()
		return failed == nil
	}, why)

	w.kubectl("delete", "secret", "databases-probes", "-n", deployNamespace)
	if output, err := w.script("probes-certificate.sh"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	run("ALTER ROLE databases_admin PASSWORD 'new';")
	w.putSecret("databases-admin", "dsn", w.adminDSN("databases_admin", "new"))
	run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'databases_admin';")
	begin := time.Now()
	w.eventually("the new certificate is served", func() bool {
		var now string
		now, failed = w.certificate()
		return failed == nil && now != serial
	}, why)
	fmt.Printf("      the new certificate is served %.0f s after it was put (the kubelet looks about once a minute)\n", time.Since(begin).Seconds())
	w.createShared("second")
	w.eventually("second is Ready", func() bool { return len(w.sharedPasswords("second")) == 1 })
	fmt.Printf("      a Database by the new DSN is Ready %.0f s after that was put\n", time.Since(begin).Seconds())
	if now := w.kubectl("get", "pods", "-n", deployNamespace, "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount}\n{end}"); now != restarts {
		t.Errorf("pods and restarts:\n%s\nbefore:\n%s", now, restarts)
	}
}

// certificateLimit is how long one look at the certificate may take.
const certificateLimit = 10 * time.Second

// certificate is the serial number of what the leader's probes serve. An error is no verdict: there may be no leader at the moment,
// and a port-forward fails now and then.
func (w *world) certificate() (serial string, err error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), certificateLimit)
	defer cancel()
	leader := w.leaderNow()
	if leader == "" {
		return "", errors.New("nobody leads")
	}
	forward := exec.CommandContext(ctx, kubectl, "port-forward", "-n", deployNamespace, "pod/"+leader, ":8443")
	forward.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig)
	said, complained := &buffer{}, &buffer{}
	forward.Stdout, forward.Stderr = said, complained
	if err := forward.Start(); err != nil {
		return "", err
	}
	defer func() { cancel(); _ = forward.Wait() }()
	var address string
	for forwarded := false; !forwarded; time.Sleep(100 * time.Millisecond) {
		if ctx.Err() != nil {
			return "", fmt.Errorf("the port of %s isn't forwarded: %s", leader, complained)
		}
		_, rest, _ := strings.Cut(said.String(), "Forwarding from ")
		address, _, forwarded = strings.Cut(rest, " ")
	}
	// Nothing checks it: it signs itself, and kubelets check none.
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w: %s", leader, err, complained)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// TestBadSettingsInAPod gives the program a bad value of each variable, each in a container of its own with the Deployment's
// template otherwise: each ends with status 78 and a line that names the variable.
func TestBadSettingsInAPod(t *testing.T) {
	w := newWorld(t)
	w.deployShared(w.sharedServer("a-password-of-the-test"))
	var deployment struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if err := json.Unmarshal([]byte(w.kubectl("get", "deployment", "databases", "-n", deployNamespace, "-o", "json")), &deployment); err != nil {
		t.Fatal(err)
	}
	template := deployment.Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deployNamespace, Name: "bad"}, Spec: template.Spec}
	good := pod.Spec.Containers[0]
	pod.Spec.RestartPolicy, pod.Spec.Containers = corev1.RestartPolicyNever, nil
	bad := badValues()
	telemetry := *good.DeepCopy() // all at once
	telemetry.Name, telemetry.Resources = "telemetry", corev1.ResourceRequirements{}
	telemetry.ReadinessProbe, telemetry.LivenessProbe, telemetry.StartupProbe, telemetry.Ports = nil, nil, nil, nil
	for _, name := range settings.OTelVariables() {
		telemetry.Env = append(telemetry.Env, corev1.EnvVar{Name: name, Value: "not good: *"})
	}
	pod.Spec.Containers = append(pod.Spec.Containers, telemetry)
	for name, value := range bad {
		container := *good.DeepCopy()
		container.Name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		container.Resources = corev1.ResourceRequirements{}
		container.ReadinessProbe, container.LivenessProbe, container.StartupProbe, container.Ports = nil, nil, nil, nil
		set := corev1.EnvVar{Name: name, Value: value}
		replaced := false
		for i := range container.Env {
			if container.Env[i].Name == name {
				container.Env[i], replaced = set, true
			}
		}
		if !replaced {
			container.Env = append(container.Env, set)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	if err := w.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.eventually("all containers have ended", func() bool {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		return pod.Status.Phase == corev1.PodFailed
	}, func() string { return w.kubectl("describe", "pod", "bad", "-n", deployNamespace) })
	codes := map[string]int32{}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			codes[s.Name] = s.State.Terminated.ExitCode
		}
	}
	for name := range bad {
		container := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		log := w.kubectl("logs", "bad", "-n", deployNamespace, "-c", container)
		if codes[container] != 78 || !strings.Contains(log, "\n"+name+" ") {
			t.Errorf("%s: status %d, log:\n%s", name, codes[container], log)
		}
	}
	log := w.kubectl("logs", "bad", "-n", deployNamespace, "-c", "telemetry")
	for _, name := range settings.OTelVariables() {
		if codes["telemetry"] != 78 || !strings.Contains(log, "\n"+name+" ") {
			t.Errorf("%s: status %d, log:\n%s", name, codes["telemetry"], log)
		}
	}
	w.works("orders") // the replicas that run go on
	w.kubectl("delete", "pod", "bad", "-n", deployNamespace, "--grace-period=0", "--force")
}

// TestTakenOver: what comes back from a backup names no owner, and is taken over, also where the API server lets nobody own what
// they may not delete. (One that names an owner that is gone is the garbage collector's, who may be faster.)
func TestTakenOver(t *testing.T) {
	w := newWorld(t)
	w.deployShared(w.sharedServer("a-password-of-the-test"))
	// The component that such clusters need.
	w.kubectl("apply", "-f", "../../deploy/kustomize/components/owner-enforcement/rbac.yaml")
	w.Cleanup(func() {
		command := exec.Command(kubectl, "delete", "-f", "../../deploy/kustomize/components/owner-enforcement/rbac.yaml")
		command.Env = append(os.Environ(), "KUBECONFIG="+testenv.Get(w).Kubeconfig)
		_ = command.Run()
	})
	for _, name := range []string{"restored-postgres", "restored-credentials"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "databases"},
			},
			Data: map[string][]byte{"password": []byte("from-the-backup")},
		}
		if err := w.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "restored", Labels: map[string]string{"app.kubernetes.io/managed-by": "databases"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "postgres", Port: 5432}}},
	}
	if err := w.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	w.create("restored")
	w.works("restored")
	// Whether the first one is still there is asked before the second one may have its name.
	second := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "second"}, Spec: v1alpha1.DatabaseSpec{Name: "restored"}}
	if err := w.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.eventually("the second one is refused", func() bool {
		w.get("second", second)
		ready := apimeta.FindStatusCondition(second.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == v1alpha1.ReasonNameConflict
	})
	if w.sharedPasswords("restored")["restored"] != "from-the-backup" {
		t.Error("the role has another password than its Secret had")
	}
	w.ready("restored")
	if got := string(w.secret("restored").Data["password"]); got != "from-the-backup" {
		t.Error("the server's login has another password than its Secret had")
	}
	if got := w.sql("restored", "SELECT 1;"); got != "1" {
		t.Errorf("psql prints %q", got)
	}
}
