{{- define "tunesmith.selector" -}}
app.kubernetes.io/name: tunesmith
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tunesmith.metadata" -}}
name: {{ .Release.Name }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "tunesmith.selector" . | nindent 2 }}
{{- end }}

{{/* The namespaces of trials, of which that of the server is the first. */}}
{{- define "tunesmith.namespaces" -}}
{{- prepend .Values.namespaces.trials .Release.Namespace | uniq | toJson }}
{{- end }}

{{- define "tunesmith.scheme" -}}
{{ if .Values.tls.secretName }}https{{ else }}http{{ end }}
{{- end }}

{{- define "tunesmith.port" -}}
{{ regexFind "[0-9]+$" .Values.listen }}
{{- end }}

{{- define "tunesmith.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end }}
