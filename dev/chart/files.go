package main

const (
	base       = "deploy/kustomize/base/"
	components = "deploy/kustomize/components/"
	templates  = "deploy/chart/templates/"

	chartLabels = "  labels:\n    {{- include \"databases.labels\" . | nindent 4 }}\n"
)

// files are all generated files.
var files = []file{
	definition("database.example.com_databases"),
	definition("postgres.example.com_databases"),
	template(base, "serviceaccount", "", namespaced(1)),
	template(base, "rbac", "", rbacEdits...),
	template(components+"owner-enforcement/", "rbac", ".Values.rbac.ownerReferencesPermissionEnforcement",
		roleEdits("databases-owner-enforcement", manifestLabels)...).named("owner-enforcement"),
	template(base, "lease", "", namespaced(3), subject,
		edit{old: "resourceNames: [databases-controller]", new: `resourceNames: [{{ include "databases.controllerName" . }}]`}),
	template(base, "disruption", "and .Values.podDisruptionBudget.enabled (gt (int .Values.replicas) 1)", namespaced(1)),
	template(base, "network", ".Values.networkPolicy.enabled", namespaced(1), edit{old: "      port: 8443\n", new: `      port: 8443
    {{- if .Values.prometheus.enabled }}
    - protocol: TCP
      port: {{ .Values.prometheus.port }}
    {{- end }}
`}),
	template(base, "deployment", "", deploymentEdits...),
	template(components+"cert-manager/", "certificate", ".Values.probes.certManager.enabled", labelled(2),
		edit{old: "databases.databases.svc", new: "databases.{{ .Release.Namespace }}.svc"}).named("certmanager"),
	template(components+"prometheus-operator/", "podmonitor", ".Values.podMonitor.enabled", labelledFor("podMonitor"),
		edit{old: "  - port: metrics\n", new: `  - port: metrics
    {{- with .Values.podMonitor.interval }}
    interval: {{ . }}
    {{- end }}
`}),
	{from: alerts, to: "deploy/chart/files/alerts.yaml", before: "# Made from " + alerts + " by `make generate`.\n"},
	rule(),
}

// alerts are the alert rules as Prometheus itself reads them.
const alerts = "deploy/monitoring/alerts.yaml"

// template is a template of the manifest's name.
func template(folder, name, condition string, edits ...edit) file {
	from := folder + name + ".yaml"
	return file{
		from: from, to: templates + name + ".yaml", condition: condition, edits: edits,
		before: "{{- /* Made from " + from + " by `make generate`. */ -}}\n",
	}
}

func (f file) named(name string) file {
	f.to = templates + name + ".yaml"
	return f
}

// definition is a CustomResourceDefinition. It is a template and not in the chart's folder crds, as Helm never upgrades what is
// there; the annotation keeps it when the chart is uninstalled.
func definition(name string) file {
	f := template("api/crds/", name, ".Values.crds.install",
		edit{old: "\nmetadata:\n  annotations:\n", new: "\nmetadata:\n" + chartLabels + "  annotations:\n    helm.sh/resource-policy: keep\n"})
	return f.named("crd-" + name)
}

// rule wraps the alert rules for the Prometheus operator.
func rule() file {
	const head = `apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: databases
  namespace: databases
  labels:
    app.kubernetes.io/name: databases
    app.kubernetes.io/part-of: databases
spec:
`
	return file{
		from: alerts, to: components + "prometheus-operator/rule.yaml", columns: 2,
		before: "# Made from " + alerts + " by `make generate`.\n" + head,
	}
}

// namespaced gives so many objects the release's namespace, and the chart's labels, which kustomize adds for the manifests.
func namespaced(times int) edit {
	return edit{old: "  namespace: databases\n", new: "  namespace: {{ .Release.Namespace }}\n" + chartLabels, times: times}
}

const manifestLabels = "  labels:\n    app.kubernetes.io/name: databases\n    app.kubernetes.io/part-of: databases\n"

// labelled is namespaced for objects of components, which have the labels already.
func labelled(times int) edit {
	return edit{old: "  namespace: databases\n" + manifestLabels, new: "  namespace: {{ .Release.Namespace }}\n" + chartLabels, times: times}
}

func labelledFor(value string) edit {
	e := labelled(1)
	e.new += "    {{- include \"databases.moreLabels\" .Values." + value + ".labels | nindent 4 }}\n"
	return e
}
