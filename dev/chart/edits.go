package main

// subject is the service account that a binding names; it follows namespaced, which has replaced the other namespaces.
var subject = edit{
	old: "- kind: ServiceAccount\n  name: databases\n  namespace: {{ .Release.Namespace }}\n" + chartLabels,
	new: "- kind: ServiceAccount\n  name: databases\n  namespace: {{ .Release.Namespace }}\n",
}

// rbacEdits make the ClusterRole a Role where one namespace is watched; templates/watch.yaml has what remains outside it.
var rbacEdits = append(roleEdits("databases", ""),
	edit{old: "system:serviceaccount:databases:databases", new: "system:serviceaccount:{{ .Release.Namespace }}:databases"},
	edit{
		old: `# Whose uid is this cluster's name in the claims on roles.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
`,
		new: `{{- if not .Values.watchNamespace }}
# Whose uid is this cluster's name in the claims on roles.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- end }}
`,
	},
)

// roleEdits are those of a ClusterRole and its binding with the name and, in the manifest, the labels.
func roleEdits(name, labels string) []edit {
	const kind = `kind: {{ include "databases.roleKind" . }}`
	return []edit{
		{old: "kind: ClusterRole\nmetadata:\n  name: " + name + "\n" + labels, new: roleMetadata(kind, name)},
		{old: "kind: ClusterRoleBinding\nmetadata:\n  name: " + name + "\n" + labels, new: roleMetadata(kind+"Binding", name)},
		{old: "  kind: ClusterRole\n", new: "  " + kind + "\n"},
		{old: "  namespace: databases\n", new: "  namespace: {{ .Release.Namespace }}\n"},
	}
}

func roleMetadata(kind, name string) string {
	return kind + `
metadata:
  name: ` + name + `
  {{- with .Values.watchNamespace }}
  namespace: {{ . | quote }}
  {{- end }}
` + chartLabels
}

var deploymentEdits = []edit{
	namespaced(1),
	{old: "  replicas: 2\n", new: "  replicas: {{ .Values.replicas }}\n"},
	{old: "  template:\n    metadata:\n", new: `  template:
    metadata:
      annotations:
        # A change of the settings reaches the pods by a rollout.
        checksum/settings: {{ cat (include "databases.settings" .) (include "databases.sharedServer" .) | sha256sum }}
        {{- if and .Values.prometheus.enabled (not .Values.podMonitor.enabled) }}
        prometheus.io/scrape: "true"
        prometheus.io/port: {{ .Values.prometheus.port | quote }}
        {{- end }}
`},
	{old: "      enableServiceLinks: false\n", new: "      enableServiceLinks: false\n" + podValues},
	{old: "        image: databases:dev\n", new: `        image: {{ .Values.image | quote }}
        {{- with .Values.imagePullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
`},
	{old: "            name: databases-settings\n", new: `            name: databases-settings
        {{- if .Values.sharedServer.enabled }}
        - configMapRef:
            name: databases-shared-server
        {{- end }}
`},
	{old: "        env:\n", new: `        env:
        {{- if .Values.sharedServer.enabled }}
        - name: POSTGRES_ADMIN_DSN_FILE
          value: /etc/databases/admin/dsn
        {{- end }}
        {{- with .Values.otel.existingSecret }}
        - name: OTEL_EXPORTER_OTLP_HEADERS
          valueFrom:
            secretKeyRef:
              name: {{ . | quote }}
              key: headers
              optional: true
        {{- end }}
`},
	{old: "          value: databases-patroni:dev\n", new: "          value: {{ .Values.patroniImage | quote }}\n"},
	{old: "/etc/databases/probes/tls.pem\n", new: "/etc/databases/probes/{{ include \"databases.probesKey\" . }}\n"},
	{old: "          containerPort: 8443\n", new: `          containerPort: 8443
        {{- if .Values.prometheus.enabled }}
        - name: metrics
          containerPort: {{ .Values.prometheus.port }}
        {{- end }}
`},
	{old: "        resources:\n          requests:\n            cpu: 50m\n            memory: 64Mi\n", new: `        resources:
          {{- toYaml .Values.resources | nindent 10 }}
`},
	{old: "          mountPath: /etc/databases/probes\n          readOnly: true\n", new: `          mountPath: /etc/databases/probes
          readOnly: true
        {{- if .Values.sharedServer.enabled }}
        - name: admin
          mountPath: /etc/databases/admin
          readOnly: true
        {{- end }}
        {{- if .Values.otel.existingSecret }}
        - name: otel
          mountPath: /etc/databases/otel
          readOnly: true
        {{- end }}
`},
	{old: "          secretName: databases-probes\n          defaultMode: 288 # 0440\n", new: `          secretName: {{ include "databases.probesSecret" . | quote }}
          defaultMode: 288 # 0440
      {{- if .Values.sharedServer.enabled }}
      - name: admin
        secret:
          secretName: {{ .Values.sharedServer.existingSecret | quote }}
          defaultMode: 288 # 0440
      {{- end }}
      {{- with .Values.otel.existingSecret }}
      - name: otel
        secret:
          secretName: {{ . | quote }}
          defaultMode: 288 # 0440
      {{- end }}
`},
}

// podValues are the values that belong to the pod as a whole.
const podValues = `      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
`
