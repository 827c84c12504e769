package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func TestLint(t *testing.T) {
	for name, values := range map[string]string{"defaults": "{}", "everything": everything} {
		if output, err := runHelm(t.Context(), values, "lint", "--strict", chart); err != nil {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}

// TestCurrent fails where `make generate` would change something.
func TestCurrent(t *testing.T) {
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join("../..", f.from))
		if err != nil {
			t.Fatal(err)
		}
		want, err := f.render(string(content))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../..", f.to))
		if err != nil || string(got) != want {
			t.Errorf("%s isn't current (error %v): run make generate", f.to, err)
		}
	}
}

// TestLostLine: a manifest that lacks a line which the chart replaces is an error, not a chart without the value.
func TestLostLine(t *testing.T) {
	f := file{from: "a", to: "b", edits: []edit{{old: "replicas: 2\n", new: "replicas: {{ .Values.replicas }}\n"}}}
	if _, err := f.render("replicas: 3\n"); err == nil || !strings.Contains(err.Error(), "replicas: 2") {
		t.Errorf("error %v", err)
	}
}

// property is a part of values.schema.json.
type property struct {
	Description          string
	Properties           map[string]property
	AdditionalProperties any
}

// TestValuesAreDescribed: values.yaml and its schema have the same values, each described.
func TestValuesAreDescribed(t *testing.T) {
	var described property
	content, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &described); err != nil {
		t.Fatal(err)
	}
	delete(described.Properties, "global") // Helm's own
	content, err = os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		t.Fatal(err)
	}
	compareValues(t, "", described, values)
}

func compareValues(t *testing.T, path string, described property, values map[string]any) {
	t.Helper()
	if described.AdditionalProperties != false {
		t.Errorf("the schema of %q lets unknown values pass", path)
	}
	for name := range described.Properties {
		if _, ok := values[name]; !ok {
			t.Errorf("%s%s is in the schema only", path, name)
		}
	}
	for name, value := range values {
		one, ok := described.Properties[name]
		if !ok || one.Description == "" {
			t.Errorf("%s%s isn't described in the schema", path, name)
		}
		if inner, ok := value.(map[string]any); ok && one.Properties != nil {
			compareValues(t, path+name+".", one, inner)
		}
	}
}

// TestRefusedValues has what Helm refuses, and a word of what it says.
func TestRefusedValues(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                    "replica",
		"replicas: 0":                   "replicas",
		"image: 'a b'":                  "image",
		"settings: {POSTGRES_HOST: db}": "POSTGRES_HOST",
		"settings: {OTEL_EXPORTER_OTLP_HEADERS: 'a=b'}":                          "HEADERS",
		"settings: {CONTROLLER_WORKERS: 10}":                                     "CONTROLLER_WORKERS",
		"sharedServer: {enabled: true}":                                          "sharedServer",
		"sharedServer: {sslmode: full}":                                          "sslmode",
		"otel: {endpoint: 'collector:4317'}":                                     "endpoint",
		"watchNamespace: team.a":                                                 "watchNamespace",
		"settings: {CONTROLLER_WORKERS: '101'}":                                  "CONTROLLER_WORKERS",
		"settings: {CONTROLLER_RESYNC: '10'}":                                    "CONTROLLER_RESYNC",
		"settings: {CONTROLLER_NAME: My}":                                        "CONTROLLER_NAME",
		"sharedServer: {host: 'db:5432'}":                                        "host",
		"prometheus: {port: 8443}":                                               "port",
		"probes: {existingSecret: databases-probes-self}":                        "the chart's own",
		"{prometheus: {enabled: true}, settings: {OTEL_METRICS_EXPORTER: otlp}}": "wants prometheus in settings.OTEL_METRICS_EXPORTER",
		"podMonitor: {enabled: true}":                                            "podMonitor.enabled wants prometheus.enabled",
		"probes: {existingSecret: a, certManager: {enabled: true}}":              "not both",
	} {
		if _, err := runHelm(t.Context(), values, "template", "databases", chart); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

func as[T any](t *testing.T, all objects, key string) *T {
	t.Helper()
	o := new(T)
	if all[key] == nil {
		t.Fatalf("there is no %s", key)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[key].Object, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestEveryValueArrives looks where each value ends up.
func TestEveryValueArrives(t *testing.T) {
	all := helmTemplate(t, everything+"image: registry.example/databases:2\npatroniImage: registry.example/patroni:2\nreplicas: 3\n"+
		"resources: {limits: {memory: 256Mi}}\nsettings: {CONTROLLER_NAME: other}\n")
	deployment := as[appsv1.Deployment](t, all, "Deployment databases/databases")
	pod, container := deployment.Spec.Template.Spec, deployment.Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, v := range container.Env {
		env[v.Name] = v.Value
	}
	if *deployment.Spec.Replicas != 3 || container.Image != "registry.example/databases:2" || container.ImagePullPolicy != "Always" ||
		env["PATRONI_IMAGE"] != "registry.example/patroni:2" || pod.ImagePullSecrets[0].Name != "registry" || pod.PriorityClassName != "important" ||
		pod.NodeSelector["kubernetes.io/os"] != "linux" || pod.Tolerations[0].Key != "control" || pod.Affinity.NodeAffinity == nil ||
		container.Resources.Limits.Memory().String() != "256Mi" || len(container.EnvFrom) != 2 || len(pod.Volumes) != 3 || len(container.Ports) != 2 ||
		env["PROBES_TLS_PEM_FILE"] != "/etc/databases/probes/tls-combined.pem" {
		t.Errorf("%+v", deployment.Spec)
	}
	arrivesOTel(t, pod)
	wantSettings := map[string]any{
		"CONTROLLER_NAME": "other", "CONTROLLER_NAMESPACE": "team-a", "CONTROLLER_RESYNC": "10m", "CONTROLLER_WORKERS": "10",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_METRICS_EXPORTER": "otlp,prometheus",
		"OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0", "OTEL_EXPORTER_PROMETHEUS_PORT": "9464",
	}
	if diff := cmp.Diff(wantSettings, all["ConfigMap databases/databases-settings"].Object["data"]); diff != "" {
		t.Error(diff)
	}
	wantServer := map[string]any{
		"POSTGRES_HOST": "db.example.com", "POSTGRES_PORT": "5432", "POSTGRES_SSLMODE": "verify-full", "POSTGRES_CA_FILE": "/etc/databases/admin/ca.crt",
	}
	if diff := cmp.Diff(wantServer, all["ConfigMap databases/databases-shared-server"].Object["data"]); diff != "" {
		t.Error(diff)
	}
	if role := as[rbacv1.Role](t, all, "Role databases/databases-lease"); !slices.Equal(role.Rules[1].ResourceNames, []string{"other"}) {
		t.Errorf("the Lease's role %+v", role.Rules)
	}
	for _, key := range []string{"PodMonitor databases/databases", "PrometheusRule databases/databases"} {
		if all[key].GetLabels()["release"] != "prometheus" {
			t.Errorf("%s lacks the label: %v", key, all[key])
		}
	}
	if all["Secret databases/databases-probes-self"] != nil {
		t.Error("a certificate is made beside cert-manager's")
	}
}

// arrivesOTel looks at what comes of otel.existingSecret.
func arrivesOTel(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == "otel" && m.MountPath == "/etc/databases/otel" && m.ReadOnly
	})
	headers := slices.ContainsFunc(pod.Containers[0].Env, func(v corev1.EnvVar) bool {
		if v.Name != "OTEL_EXPORTER_OTLP_HEADERS" || v.ValueFrom == nil {
			return false
		}
		ref := v.ValueFrom.SecretKeyRef
		return ref != nil && ref.Name == "collector" && ref.Key == "headers" && *ref.Optional
	})
	if !mounted || !headers {
		t.Errorf("mounted: %v, headers: %v", mounted, headers)
	}
}

// TestMetricsGoBothWays: wherever the endpoint is named, scraping takes nothing from the collector; what a user says stays.
func TestMetricsGoBothWays(t *testing.T) {
	for values, want := range map[string]string{
		"": "prometheus",
		"otel: {endpoint: 'http://collector:4318'}":                                                           "otlp,prometheus",
		"settings: {OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318'}":                                    "otlp,prometheus",
		"settings: {OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://collector:4318/v1/metrics'}":                 "otlp,prometheus",
		"settings: {OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces'}":                   "prometheus",
		"settings: {OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', OTEL_METRICS_EXPORTER: prometheus}": "prometheus",
		"{otel: {endpoint: 'http://collector:4318'}, settings: {OTEL_METRICS_EXPORTER: prometheus}}":          "prometheus",
		"settings: {OTEL_METRICS_EXPORTER: ''}":                                                               "prometheus",
	} {
		all := helmTemplate(t, values+"\n"+"prometheus: {enabled: true}\n")
		if got := all["ConfigMap databases/databases-settings"].Object["data"].(map[string]any)["OTEL_METRICS_EXPORTER"]; got != want {
			t.Errorf("%s: %v, want %s", values, got, want)
		}
	}
}

// TestScrapedOnce: pods are annotated only where no PodMonitor names them, in the chart as in the manifests.
func TestScrapedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		all  objects
		want bool
	}{
		"chart":               {helmTemplate(t, "prometheus: {enabled: true}"), true},
		"chart, operator":     {helmTemplate(t, "{prometheus: {enabled: true}, podMonitor: {enabled: true}}"), false},
		"manifests":           {kustomize(t, "testdata/prometheus"), true},
		"manifests, operator": {kustomize(t, "testdata/prometheus-operator"), false},
	} {
		annotations := as[appsv1.Deployment](t, c.all, "Deployment databases/databases").Spec.Template.Annotations
		_, scrape := annotations["prometheus.io/scrape"]
		_, port := annotations["prometheus.io/port"]
		if scrape != c.want || port != c.want {
			t.Errorf("%s: %v", name, annotations)
		}
	}
}

// TestOwnerEnforcement: the rights that only the admission plugin looks at are granted on demand, and where the others are.
func TestOwnerEnforcement(t *testing.T) {
	for key, all := range map[string]objects{
		"ClusterRole /databases": helmTemplate(t, "{}"),
		"Role team-a/databases":  helmTemplate(t, "watchNamespace: team-a"),
	} {
		for _, rule := range as[rbacv1.Role](t, all, key).Rules {
			if slices.Contains(rule.Verbs, "delete") && slices.Contains(rule.Resources, "secrets") || all[key+"-owner-enforcement"] != nil {
				t.Errorf("%s may delete what it never deletes: %v", key, rule)
			}
		}
	}
	one := helmTemplate(t, "{watchNamespace: team-a, rbac: {ownerReferencesPermissionEnforcement: true}}")
	binding := as[rbacv1.RoleBinding](t, one, "RoleBinding team-a/databases-owner-enforcement")
	if len(as[rbacv1.Role](t, one, "Role team-a/databases-owner-enforcement").Rules) != 3 || binding.RoleRef.Kind != "Role" || binding.Subjects[0].Namespace != namespace {
		t.Errorf("%+v", binding)
	}
}

// TestOneNamespace: nothing is granted for the whole cluster, and no rule of the ClusterRole is lost.
func TestOneNamespace(t *testing.T) {
	whole, one := helmTemplate(t, "{}"), helmTemplate(t, "watchNamespace: team-a")
	for key := range one {
		if strings.HasPrefix(key, "ClusterRole") {
			t.Errorf("there is %s", key)
		}
	}
	got := append(as[rbacv1.Role](t, one, "Role kube-system/databases-cluster-id").Rules, as[rbacv1.Role](t, one, "Role team-a/databases").Rules...)
	if diff := cmp.Diff(as[rbacv1.ClusterRole](t, whole, "ClusterRole /databases").Rules, got); diff != "" {
		t.Error(diff)
	}
}

// TestSwitchedOff: what may be left out is left out, and one replica has no budget that would stop each drain.
func TestSwitchedOff(t *testing.T) {
	all := helmTemplate(t, "{podDisruptionBudget: {enabled: false}, networkPolicy: {enabled: false}, crds: {install: false}, probes: {existingSecret: mine}}")
	for key := range all {
		if regexp.MustCompile(`^(PodDisruptionBudget|NetworkPolicy|CustomResourceDefinition|Secret) `).MatchString(key) {
			t.Errorf("there is %s", key)
		}
	}
	if got := as[appsv1.Deployment](t, all, "Deployment databases/databases").Spec.Template.Spec.Volumes[0].Secret.SecretName; got != "mine" {
		t.Errorf("the Secret of the probes is %q", got)
	}
	if helmTemplate(t, "replicas: 1")["PodDisruptionBudget databases/databases"] != nil {
		t.Error("one replica has a budget")
	}
}
