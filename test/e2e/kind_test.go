//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
)

// kindOverlay has the images that this machine can make in place of those that only a registry has: PostgreSQL's own entrypoint
// isn't there, so what it does stands in the command.
const kindOverlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- BASE
images:
- {name: otel/opentelemetry-collector-contrib, newName: standin, newTag: dev}
- {name: grafana/grafana, newName: standin, newTag: dev}
- {name: grafana/tempo, newName: standin, newTag: dev}
- {name: prom/prometheus, newName: standin, newTag: dev}
- {name: postgres, newName: postgres, newTag: "17"}
patches:
- target: {kind: Deployment, name: postgres}
  patch: |-
    - op: add
      path: /spec/template/spec/containers/0/command
      value:
      - sh
      - -ec
      - |
        [ -e $PGDATA ] || {
          initdb -A scram-sha-256 --pwfile=$POSTGRES_PASSWORD_FILE >/dev/null
          echo "host all all all scram-sha-256" >>$PGDATA/pg_hba.conf
          pg_ctl start -w -o "-c listen_addresses= -c unix_socket_directories=/var/run/postgresql" >/dev/null
          export PGPASSWORD="$(cat $POSTGRES_PASSWORD_FILE)" PGHOST=/var/run/postgresql POSTGRES_USER=postgres POSTGRES_DB=postgres
          /docker-entrypoint-initdb.d/init.sh
          pg_ctl stop -w >/dev/null
        }
        exec postgres -c listen_addresses=* -c unix_socket_directories=/var/run/postgresql
`

// TestKindStack applies the manifests of deploy/kind as up.sh does: everything starts under the Pod Security Standard of its
// namespace, the probes and ports fit each other, and the example Database becomes Ready. A collector that understands
// nothing of what it is sent keeps nothing up.
func TestKindStack(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.cleanShared)
	folder := filepath.Join(t.TempDir(), "overlay")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	kind, err := filepath.Abs("../../deploy/kind")
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Rel(folder, kind)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(strings.Replace(kindOverlay, "BASE", base, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubectl("apply", "--server-side", "-f", "../../deploy/kustomize/base/namespace.yaml")
	w.putSecret("postgres-superuser", "password", "the-superusers-password")
	w.putSecret("grafana-admin", "password", "grafanas-password")
	w.kubectl("create", "secret", "generic", "databases-admin", "-n", deployNamespace, "--from-literal=password=the-admins-password",
		"--from-literal=dsn=postgres://databases_admin:the-admins-password@postgres.databases.svc.cluster.local:5432/postgres?sslmode=disable")
	if output, err := w.script("probes-certificate.sh"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	manifests := w.kubectl("kustomize", folder)
	if output, err := w.tryKubectl(manifests, "apply", "-n", deployNamespace, "--server-side", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, deployment := range []string{"postgres", "collector", "tempo", "prometheus", "grafana", "databases"} {
		if output, err := w.tryKubectl("", "rollout", "status", "deployment/"+deployment, "-n", deployNamespace, "--timeout=2m"); err != nil {
			t.Fatalf("%v: %s\n%s", err, output, w.kubectl("describe", "pods", "-n", deployNamespace, "-l", "app.kubernetes.io/name="+deployment))
		}
	}
	w.kubectl("apply", "-n", "default", "-f", "../../deploy/kind/database.yaml")
	orders := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
	w.eventually("orders is Ready", func() bool {
		return w.Get(t.Context(), client.ObjectKeyFromObject(orders), orders) == nil &&
			apimeta.IsStatusConditionTrue(orders.Status.Conditions, v1alpha1.ConditionReady)
	})
	w.kubectl("delete", "-n", "default", "-f", "../../deploy/kind/database.yaml", "--timeout=1m")
}
