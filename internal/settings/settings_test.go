package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/example/databases/internal/settings"
	"github.com/example/databases/internal/testenv"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {token: t}}]
`

// files are what a good environment names.
type files struct{ dir, kubeconfig, dsn, pem, token, empty, noPEM, missing, badDSN, badKubeconfig string }

func newFiles(t *testing.T) files {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return files{
		dir: dir, kubeconfig: write("kubeconfig", kubeconfig), dsn: write("dsn", "postgres://admin:hunter2@db:5432/postgres\n"),
		pem: write("pem", testenv.SelfSigned(t, 1)), token: write("token", "a token"), empty: write("empty", " \n"),
		noPEM: write("nopem", "hello"), missing: filepath.Join(dir, "missing"),
		badDSN: write("baddsn", "postgres://admin:hunter2@db:port/postgres"), badKubeconfig: write("badkubeconfig", "apiVersion: v1\nkind: Config\n"),
	}
}

func (f files) outside() map[string]string {
	return map[string]string{"KUBECONFIG": f.kubeconfig, "POSTGRES_ADMIN_DSN_FILE": f.dsn, "POSTGRES_HOST": "db.example.com"}
}

func (f files) pod() map[string]string {
	return map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_CA_FILE": f.pem, "KUBERNETES_TOKEN_FILE": f.token,
		"POD_NAMESPACE": "databases", "POD_NAME": "databases-0", "PROBES_ADDR": ":8443", "PROBES_TLS_PEM_FILE": f.pem,
		"POSTGRES_ADMIN_DSN_FILE": f.dsn, "POSTGRES_HOST": "10.0.0.7",
	}
}

func read(env map[string]string) (settings.Settings, error) {
	return settings.Read(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestDefaults(t *testing.T) {
	f := newFiles(t)
	s, err := read(f.outside())
	if err != nil {
		t.Fatal(err)
	}
	if s.InPod || s.ControllerName != "databases-controller" || s.Namespace != "" || s.Workers != 10 || s.Resync != 10*time.Minute ||
		s.FaultTrustedPrefix != "" || s.FaultMaxDelay != 10*time.Second || s.Kube.Host != "https://127.0.0.1:6443" || s.Kube.QPS != -1 {
		t.Errorf("settings %+v", s)
	}
	want := &settings.Postgres{AdminDSNFile: f.dsn, Host: "db.example.com", Port: 5432}
	if diff := cmp.Diff(want, s.Postgres); diff != "" {
		t.Error(diff)
	}
	s, err = read(f.pod())
	if err != nil {
		t.Fatal(err)
	}
	if !s.InPod || s.Kube.Host != "https://10.96.0.1:443" || s.Kube.BearerTokenFile != f.token || s.PodName != "databases-0" {
		t.Errorf("settings in a pod %+v", s)
	}
	without := f.outside()
	delete(without, "POSTGRES_HOST")
	delete(without, "POSTGRES_ADMIN_DSN_FILE")
	if s, err := read(without); err != nil || s.Postgres != nil {
		t.Errorf("without a server: %+v, %v", s.Postgres, err)
	}
}

// TestBadSettings has every setting with each kind of bad value, and the line that it leads to.
func TestBadSettings(t *testing.T) {
	f := newFiles(t)
	const unread = " names a file that can't be read: no such file or directory"
	cases := []struct {
		name, value, want string
		pod               bool
	}{
		{"KUBECONFIG", f.missing, "KUBECONFIG isn't a kubeconfig file with a usable current context: no such file or directory", false},
		{"KUBECONFIG", f.badKubeconfig, "KUBECONFIG isn't a kubeconfig file with a usable current context: it can't be parsed", false},
		{"KUBERNETES_SERVICE_HOST", "", "KUBERNETES_SERVICE_HOST is required (the kubelet sets it in a pod); outside a cluster set KUBECONFIG instead", true},
		{"KUBERNETES_SERVICE_HOST", "a b", "KUBERNETES_SERVICE_HOST must be a host name or an IP address, without a port", true},
		{"KUBERNETES_SERVICE_PORT", "", "KUBERNETES_SERVICE_PORT is required (the kubelet sets it in a pod); outside a cluster set KUBECONFIG instead", true},
		{"KUBERNETES_SERVICE_PORT", "https", "KUBERNETES_SERVICE_PORT must be a port from 1 to 65535", true},
		{"KUBERNETES_CA_FILE", f.missing, "KUBERNETES_CA_FILE" + unread, true},
		{"KUBERNETES_CA_FILE", f.noPEM, "KUBERNETES_CA_FILE names a file without a PEM certificate", true},
		{"KUBERNETES_TOKEN_FILE", f.missing, "KUBERNETES_TOKEN_FILE" + unread, true},
		{"KUBERNETES_TOKEN_FILE", f.empty, "KUBERNETES_TOKEN_FILE names a file that is empty", true},
		{"CONTROLLER_NAME", "My Controller", "CONTROLLER_NAME must be lower-case letters, digits and '-', at most 63 characters, beginning and ending with a letter or digit", false},
		{"CONTROLLER_NAMESPACE", "a,b", "CONTROLLER_NAMESPACE must be lower-case letters, digits and '-', at most 63 characters, beginning and ending with a letter or digit", false},
		{"CONTROLLER_WORKERS", "many", "CONTROLLER_WORKERS must be a whole number from 1 to 100", false},
		{"CONTROLLER_WORKERS", "0", "CONTROLLER_WORKERS must be a whole number from 1 to 100", false},
		{"CONTROLLER_RESYNC", "10", "CONTROLLER_RESYNC must be a duration from 10s to 24h, as 90s or 10m", false},
		{"CONTROLLER_RESYNC", "1s", "CONTROLLER_RESYNC must be a duration from 10s to 24h, as 90s or 10m", false},
		{"POD_NAMESPACE", "", "POD_NAMESPACE is required in a pod", true},
		{"POD_NAMESPACE", "A", "POD_NAMESPACE must be lower-case letters, digits and '-', at most 63 characters, beginning and ending with a letter or digit", true},
		{"POD_NAME", "", "POD_NAME is required in a pod", true},
		{"POD_NAME", "-", "POD_NAME must be lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit", true},
		{"POD_NAME", "databases-0", "POD_NAME and POD_NAMESPACE go together: set both or neither", false},
		{"POSTGRES_ADMIN_DSN_FILE", "", "POSTGRES_ADMIN_DSN_FILE is required where POSTGRES_HOST is set: the path of a file that holds the admin's DSN", false},
		{"POSTGRES_ADMIN_DSN_FILE", "postgres://admin:hunter2@db/postgres", "POSTGRES_ADMIN_DSN_FILE must be the path of a file that holds the DSN, not the DSN itself", false},
		{"POSTGRES_ADMIN_DSN_FILE", "host=db password=hunter2", "POSTGRES_ADMIN_DSN_FILE must be the path of a file that holds the DSN, not the DSN itself", false},
		{"POSTGRES_ADMIN_DSN_FILE", f.missing, "POSTGRES_ADMIN_DSN_FILE" + unread, false},
		{"POSTGRES_ADMIN_DSN_FILE", f.dir, "POSTGRES_ADMIN_DSN_FILE names a file that can't be read: is a directory", false},
		{"POSTGRES_ADMIN_DSN_FILE", f.empty, "POSTGRES_ADMIN_DSN_FILE names a file that can't be used: the file is empty", false},
		{"POSTGRES_ADMIN_DSN_FILE", f.badDSN, "POSTGRES_ADMIN_DSN_FILE names a file that can't be used: not a PostgreSQL DSN such as postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full (special characters in the password must be percent-encoded)", false},
		{"POSTGRES_HOST", "", "POSTGRES_HOST is required where POSTGRES_ADMIN_DSN_FILE is set: the server's host as a client of the Secrets reaches it", false},
		{"POSTGRES_HOST", "db:5432", "POSTGRES_HOST must be a host name or an IP address, without a port", false},
		{"POSTGRES_PORT", "65536", "POSTGRES_PORT must be a whole number from 1 to 65535", false},
		{"POSTGRES_SSLMODE", "on", "POSTGRES_SSLMODE must be one of disable, allow, prefer, require, verify-ca, verify-full", false},
		{"POSTGRES_CA_FILE", f.noPEM, "POSTGRES_CA_FILE names a file without a PEM certificate", false},
		{"PROBES_ADDR", "", "PROBES_ADDR is required in a pod", true},
		{"PROBES_ADDR", "8443", "PROBES_ADDR must be HOST:PORT or :PORT", true},
		{"PROBES_ADDR", ":8443", "PROBES_TLS_PEM_FILE and PROBES_ADDR go together: set both or neither", false},
		{"PROBES_TLS_PEM_FILE", "", "PROBES_TLS_PEM_FILE is required in a pod", true},
		{"PROBES_TLS_PEM_FILE", f.noPEM, "PROBES_TLS_PEM_FILE names a file that doesn't hold a PEM certificate and its private key", true},
		{"FAULT_TRUSTED_NAMESPACE_PREFIX", "*", "FAULT_TRUSTED_NAMESPACE_PREFIX must be the beginning of a namespace's name: lower-case letters, digits and '-'", false},
		{"PATRONI_IMAGE", "not an image", "PATRONI_IMAGE must be an image reference, as databases-patroni:1.0", false},
		{"FAULT_MAX_DELAY", "-1s", "FAULT_MAX_DELAY must be a duration from 0s to 10m, as 90s or 10m", false},
	}
	tried := map[string]bool{}
	for _, c := range cases {
		tried[c.name] = true
		env := f.outside()
		if c.pod {
			env = f.pod()
		}
		env[c.name] = c.value
		_, err := read(env)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s=%q:\n got %v\nwant %s", c.name, c.value, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the message shows a password: %v", c.name, err)
		}
	}
	for _, v := range settings.Variables {
		if !tried[v.Name] {
			t.Errorf("%s has no bad value in this test", v.Name)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	f := newFiles(t)
	env := f.outside()
	env["POSTGRES_PORT"], env["CONTROLLER_WORKERS"], env["FAULT_MAX_DELAY"] = "x", "x", "x"
	_, err := read(env)
	want := "CONTROLLER_WORKERS must be a whole number from 1 to 100\nPOSTGRES_PORT must be a whole number from 1 to 65535\nFAULT_MAX_DELAY must be a duration from 0s to 10m, as 90s or 10m"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
