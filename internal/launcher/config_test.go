package launcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func testPod(major int) Pod {
	return Pod{
		Name: "db-0", Namespace: "ns", IP: "10.0.0.7", PGData: "/vol/pgdata", RunDir: "/run/databases", User: "postgres",
		Program: "/databases/databases-patroni", Image: &Inspection{Major: major, PostgresVersion: "15.18", CollationVersion: "2.36", BinDir: "/usr/lib/postgresql/15/bin"},
	}
}

var testCredentials = Credentials{Superuser: "s", Replication: "r", REST: "a"}

// configOf gives the configuration as Patroni reads it.
func configOf(t *testing.T, template string, pod Pod, credentials Credentials) map[string]any {
	t.Helper()
	content, err := Config([]byte(template), pod, credentials)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	if err := yaml.UnmarshalStrict(content, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

const wholeConfig = `
scope: db
name: db-0
tags: {postgres_version: "15.18", postgres_major: 15, collation_version: "2.36"}
kubernetes: {labels: {app: database}, pod_ip: 10.0.0.7, namespace: ns}
bootstrap:
  dcs: {ttl: 20}
  initdb: [data-checksums, {encoding: UTF8}, {locale: C.UTF-8}, {auth-host: scram-sha-256}, {auth-local: peer}]
restapi:
  listen: 0.0.0.0:8008
  connect_address: 10.0.0.7:8008
  authentication: {username: databases, password: a}
postgresql:
  listen: 127.0.0.1:5432
  connect_address: 10.0.0.7:5432
  data_dir: /vol/pgdata
  bin_dir: /usr/lib/postgresql/15/bin
  pgpass: /run/databases/pgpass
  use_unix_socket: true
  use_unix_socket_repl: true
  authentication:
    superuser: {username: postgres, password: s}
    replication: {username: replicator, password: r}
  parameters: {max_connections: 50, unix_socket_directories: /run/databases}
  callbacks:
    on_start: /databases/databases-patroni credentials
    on_role_change: /databases/databases-patroni credentials
    on_reload: /databases/databases-patroni credentials
  pg_hba:
  - local all postgres peer map=databases
  - local replication replicator peer map=databases
  - host replication replicator all scram-sha-256
  - host all all all scram-sha-256
  pg_ident: [databases postgres postgres, databases postgres replicator]
`

func TestConfig(t *testing.T) {
	for name, template := range map[string]string{
		"YAML": "scope: db\nname: wrong\nkubernetes: {labels: {app: database}}\nbootstrap: {dcs: {ttl: 20}}\nrestapi:\npostgresql: {listen: '127.0.0.1:5432', bin_dir: /wrong, parameters: {max_connections: 50}}",
		"JSON": `{"scope":"db","kubernetes":{"labels":{"app":"database"}},"bootstrap":{"dcs":{"ttl":20}},"postgresql":{"listen":"127.0.0.1:5432","parameters":{"max_connections":50}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(wholeConfig), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, configOf(t, template, testPod(15), testCredentials)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, template := range []string{"text", "[1]", "a: [", "bootstrap: {initdb: 7}"} {
		if _, err := Config([]byte(template), testPod(15), testCredentials); err == nil {
			t.Errorf("the template %q is taken for one", template)
		}
	}
}

func TestInitdbOptions(t *testing.T) {
	const auth = "{auth-host: scram-sha-256}, {auth-local: peer}"
	for name, test := range map[string]struct {
		major    int
		template string
		want     string
	}{
		"up to 16 glibc's C.UTF-8": {16, "scope: db", "[data-checksums, {encoding: UTF8}, {locale: C.UTF-8}, " + auth + "]"},
		"from 17 on PostgreSQL's own": {17, "bootstrap: {}", "[data-checksums, {encoding: UTF8}, {locale: C.UTF-8}, {locale-provider: builtin}, {builtin-locale: C.UTF-8}, " +
			auth + "]"},
		"the template's options win": {18, "bootstrap: {initdb: [no-data-checksums, {locale-provider: icu}, {icu-locale: de}, {auth: peer}]}",
			"[no-data-checksums, {locale-provider: icu}, {icu-locale: de}, {auth: peer}, {encoding: UTF8}, {locale: C.UTF-8}]"},
		"Patroni's other form": {15, "bootstrap: {initdb: {locale: de_DE.UTF-8, encoding: UTF8}}",
			"[{encoding: UTF8}, {locale: de_DE.UTF-8}, data-checksums, " + auth + "]"},
		"no locale at all": {17, "bootstrap: {initdb: [no-locale]}", "[no-locale, data-checksums, {encoding: UTF8}, " + auth + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			var want any
			if err := yaml.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			got := configOf(t, test.template, testPod(test.major), testCredentials)["bootstrap"].(map[string]any)["initdb"]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPasswordsStayText: what looks like another type of YAML must be quoted, also in YAML 1.1, which Patroni reads.
func TestPasswordsStayText(t *testing.T) {
	for _, password := range []string{"12345", "1e3", "yes", "Null", "~", "0x10", "12:30:45", "1_000", "- a", "a: b", "#c", `"'\`, "ü😀\u0085\u2028\ufeff", "<a>", "%{x}", "\x7f", " space "} {
		credentials := Credentials{Superuser: password, Replication: password, REST: password}
		config := configOf(t, "scope: db", testPod(15), credentials)
		got := config["postgresql"].(map[string]any)["authentication"].(map[string]any)["superuser"].(map[string]any)["password"]
		if got != password {
			t.Errorf("password %q became %#v", password, got)
		}
	}
}

func TestAddressesOfIPv6(t *testing.T) {
	pod := testPod(15)
	pod.IP = "fd00::7"
	config := configOf(t, "scope: db", pod, testCredentials)
	if got := config["postgresql"].(map[string]any)["connect_address"]; got != "[fd00::7]:5432" {
		t.Errorf("connect_address = %v", got)
	}
	if got := config["restapi"].(map[string]any)["listen"]; got != "[::]:8008" {
		t.Errorf("listen = %v", got)
	}
}

func TestReadSettings(t *testing.T) {
	whole := map[string]string{
		EnvTemplate: "scope: db", EnvPodName: "db-0", EnvPodIP: "10.0.0.7", EnvPodNamespace: "ns", EnvPGData: "/var/lib/postgresql/data/pgdata",
	}
	get := func(changes ...string) func(string) string {
		env := map[string]string{}
		for name, value := range whole {
			env[name] = value
		}
		for i := 0; i < len(changes); i += 2 {
			env[changes[i]] = changes[i+1]
		}
		return func(name string) string { return env[name] }
	}
	want := Settings{
		Template: "scope: db", PodName: "db-0", PodIP: "10.0.0.7", PodNamespace: "ns", PGData: "/var/lib/postgresql/data/pgdata",
		Volume: "/var/lib/postgresql/data", RunDir: DefaultRunDir, CredentialsDir: DefaultCredentialsDir, TerminationLog: DefaultTerminationLog,
	}
	got, err := ReadSettings(get())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	if got, err := ReadSettings(get(EnvVolume, "/var/lib/postgresql")); err != nil || got.Volume != "/var/lib/postgresql" {
		t.Errorf("Volume = %q, error %v", got.Volume, err)
	}
	_, err = ReadSettings(get(EnvPodName, "", EnvPodIP, "pod", EnvPGData, "data"))
	for _, fault := range []string{"POD_NAME is not set", `POD_IP is "pod"`, `PGDATA is "data"`} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("error %v lacks %q", err, fault)
		}
	}
}
