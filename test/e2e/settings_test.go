//go:build e2e

package e2e

import "github.com/example/databases/internal/settings"

// badValues has a value that is bad in a pod for each variable. KUBECONFIG wins over the pod's own connection, so a bad one is
// bad there too.
func badValues() map[string]string {
	special := map[string]string{
		"KUBECONFIG": "/does/not/exist", "KUBERNETES_CA_FILE": "/does/not/exist", "KUBERNETES_TOKEN_FILE": "/does/not/exist",
		"POSTGRES_ADMIN_DSN_FILE": "/does/not/exist", "POSTGRES_CA_FILE": "/does/not/exist", "PROBES_TLS_PEM_FILE": "/does/not/exist",
	}
	all := map[string]string{}
	for _, v := range settings.Variables {
		all[v.Name] = "not good: *"
		if value, ok := special[v.Name]; ok {
			all[v.Name] = value
		}
	}
	return all
}
