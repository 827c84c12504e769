{{- define "databases.labels" -}}
app.kubernetes.io/name: databases
app.kubernetes.io/part-of: databases
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The program's settings, as the ConfigMap's data. What has a value of its own wins over .Values.settings; how metrics leave
       has none, so what is said there of OTEL_METRICS_EXPORTER stays. */ -}}
{{- define "databases.settings" -}}
{{- $settings := deepCopy .Values.settings }}
{{- with .Values.watchNamespace }}{{ $_ := set $settings "CONTROLLER_NAMESPACE" . }}{{ end }}
{{- with .Values.otel.endpoint }}{{ $_ := set $settings "OTEL_EXPORTER_OTLP_ENDPOINT" . }}{{ end }}
{{- with .Values.otel.protocol }}{{ $_ := set $settings "OTEL_EXPORTER_OTLP_PROTOCOL" . }}{{ end }}
{{- if .Values.prometheus.enabled }}
{{- $otlp := or (get $settings "OTEL_EXPORTER_OTLP_ENDPOINT") (get $settings "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") }}
{{- if not (get $settings "OTEL_METRICS_EXPORTER") }}
{{- $_ := set $settings "OTEL_METRICS_EXPORTER" (ternary "prometheus" "otlp,prometheus" (empty $otlp)) }}
{{- end }}
{{- if not (get $settings "OTEL_EXPORTER_PROMETHEUS_HOST") }}
{{- $_ := set $settings "OTEL_EXPORTER_PROMETHEUS_HOST" "0.0.0.0" }}
{{- end }}
{{- $_ := set $settings "OTEL_EXPORTER_PROMETHEUS_PORT" (toString .Values.prometheus.port) }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{- /* The shared server as clients reach it, as the ConfigMap's data. */ -}}
{{- define "databases.sharedServer" -}}
{{- with .Values.sharedServer -}}
POSTGRES_HOST: {{ .host | quote }}
POSTGRES_PORT: {{ .port | quote }}
{{- with .sslmode }}
POSTGRES_SSLMODE: {{ . | quote }}
{{- end }}
{{- with .caFile }}
POSTGRES_CA_FILE: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Lease's name. */ -}}
{{- define "databases.controllerName" -}}
{{ get .Values.settings "CONTROLLER_NAME" | default "databases-controller" }}
{{- end }}

{{- /* The Secret of the probes' certificate, and its key that holds both halves. */ -}}
{{- define "databases.probesSecret" -}}
{{ .Values.probes.existingSecret | default (ternary "databases-probes" "databases-probes-self" .Values.probes.certManager.enabled) }}
{{- end }}
{{- define "databases.probesKey" -}}
{{ ternary "tls-combined.pem" "tls.pem" .Values.probes.certManager.enabled }}
{{- end }}

{{- /* With one namespace the rights are a Role's there, else a ClusterRole's. */ -}}
{{- define "databases.roleKind" -}}
{{ ternary "ClusterRole" "Role" (empty .Values.watchNamespace) }}
{{- end }}

{{- /* The dictionary's labels below those of the chart. */ -}}
{{- define "databases.moreLabels" -}}
{{- range $key, $value := . }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end }}
