package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything switches on what is off by default.
const everything = `
sharedServer: {enabled: true, host: db.example.com, sslmode: verify-full, caFile: /etc/databases/admin/ca.crt}
otel: {endpoint: "http://collector:4317", protocol: grpc, existingSecret: collector}
prometheus: {enabled: true}
podMonitor: {enabled: true, interval: 30s, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
probes: {certManager: {enabled: true}}
imagePullPolicy: Always
imagePullSecrets: [{name: registry}]
priorityClassName: important
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: control, operator: Exists}]
affinity: {nodeAffinity: {}}
watchNamespace: team-a
rbac: {ownerReferencesPermissionEnforcement: true}
`

// TestSameAsKustomize compares what the chart and the manifests make, object by object. What may differ is in normal, and in
// the two lists of objects that only one of them makes.
func TestSameAsKustomize(t *testing.T) {
	const (
		ns      = "Namespace /databases"                        // Helm's users make it
		probes  = "Secret databases/databases-probes-self"      // beside the manifests, by probes-certificate.sh
		server  = "ConfigMap databases/databases-shared-server" // beside the manifests, by hand
		monitor = "{prometheus: {enabled: true}, podMonitor: {enabled: true}, prometheusRule: {enabled: true}}"
	)
	for name, c := range map[string]struct {
		values, folder       string
		onlyThere, onlyChart []string
	}{
		"defaults":        {"{}", "../../deploy/kustomize", []string{ns}, []string{probes}},
		"a shared server": {"sharedServer: {enabled: true, host: db.example.com}", "../../deploy/kustomize/shared-server", []string{ns}, []string{server, probes}},
		"cert-manager":    {"probes: {certManager: {enabled: true}}", "testdata/cert-manager", []string{ns}, nil},
		"scraped":         {"prometheus: {enabled: true}", "testdata/prometheus", []string{ns}, []string{probes}},
		"OTLP":            {"otel: {endpoint: 'http://collector:4317', protocol: grpc}", "testdata/otel", []string{ns}, []string{probes}},
		"checked owners":  {"rbac: {ownerReferencesPermissionEnforcement: true}", "testdata/owner-enforcement", []string{ns}, []string{probes}},
		"one namespace": {
			"watchNamespace: team-a", "testdata/one-namespace",
			[]string{"ClusterRole /databases", "ClusterRoleBinding /databases", ns},
			[]string{
				"Role kube-system/databases-cluster-id", "Role team-a/databases", "RoleBinding kube-system/databases-cluster-id",
				"RoleBinding team-a/databases", probes,
			},
		},
		"Prometheus operator": {monitor, "testdata/prometheus-operator", []string{ns}, []string{probes}},
	} {
		t.Run(name, func(t *testing.T) {
			there, here := kustomize(t, c.folder), helmTemplate(t, c.values)
			if diff := cmp.Diff(c.onlyThere, missing(there, here)); diff != "" {
				t.Errorf("what only the manifests have: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(c.onlyChart, missing(here, there)); diff != "" {
				t.Errorf("what only the chart has: -want +got:\n%s", diff)
			}
			for key, object := range names(there) {
				if other, ok := names(here)[key]; ok {
					if diff := cmp.Diff(normal(t, object), normal(t, other)); diff != "" {
						t.Errorf("%s: -manifest +chart:\n%s", key, diff)
					}
				}
			}
		})
	}
}

// hashed is the name of the settings in the manifests.
var hashed = regexp.MustCompile(`databases-settings-[a-z0-9]{10}`)

// names are the objects with the hash taken off their names.
func names(all objects) map[string]map[string]any {
	plain := map[string]map[string]any{}
	for key, u := range all {
		plain[hashed.ReplaceAllString(key, "databases-settings")] = u.Object
	}
	return plain
}

func missing(here, there objects) []string {
	var keys []string
	for key := range names(here) {
		if _, ok := names(there)[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// normal takes away what may differ: Helm's labels and annotation; the name of the settings, which is a hash in the manifests and
// an annotation of the pods in the chart; the name of the Secret that the chart makes for the probes; the order of lists whose items have names.
func normal(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var copied map[string]any
	text = bytes.ReplaceAll(text, []byte("databases-probes-self"), []byte("databases-probes"))
	if err := json.Unmarshal(hashed.ReplaceAll(text, []byte("databases-settings")), &copied); err != nil {
		t.Fatal(err)
	}
	metadata := copied["metadata"].(map[string]any)
	without(metadata, "labels", "helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")
	without(metadata, "annotations", "helm.sh/resource-policy")
	if copied["kind"] != "Deployment" {
		return copied
	}
	template := copied["spec"].(map[string]any)["template"].(map[string]any)
	without(template["metadata"].(map[string]any), "annotations", "checksum/settings")
	pod := template["spec"].(map[string]any)
	container := pod["containers"].([]any)[0].(map[string]any)
	for _, list := range []any{container["env"], container["ports"], container["volumeMounts"], pod["volumes"]} {
		slices.SortFunc(list.([]any), func(a, b any) int {
			return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
		})
	}
	return copied
}

// without deletes keys of the map at the field, and the field where nothing is left.
func without(object map[string]any, field string, keys ...string) {
	inner, ok := object[field].(map[string]any)
	if !ok {
		return
	}
	maps.DeleteFunc(inner, func(key string, _ any) bool { return slices.Contains(keys, key) })
	if len(inner) == 0 {
		delete(object, field)
	}
}
