package settings

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Variable is one environment variable of the program.
type Variable struct {
	Name    string
	Usage   string
	Default string
}

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

// Variables are all variables of the program, in the order in which --help shows them.
var Variables = []Variable{
	{"KUBECONFIG", "kubeconfig file, to run outside a cluster; wins over KUBERNETES_*", ""},
	{"KUBERNETES_SERVICE_HOST", "API server's host; the kubelet sets it in every pod", ""},
	{"KUBERNETES_SERVICE_PORT", "API server's port", ""},
	{"KUBERNETES_CA_FILE", "API server's CA, PEM", serviceAccount + "ca.crt"},
	{"KUBERNETES_TOKEN_FILE", "service account's token; read again when it rotates", serviceAccount + "token"},
	{"CONTROLLER_NAME", "controller's, Lease's and field manager's name", "databases-controller"},
	{"CONTROLLER_NAMESPACE", "the one namespace to watch; empty: all", ""},
	{"CONTROLLER_WORKERS", "how many resources are reconciled at once, 1 to 100", "10"},
	{"CONTROLLER_RESYNC", "mean time between two looks at a resource, 10s to 24h", "10m"},
	{"POD_NAMESPACE", "namespace of the Lease; required in a pod", ""},
	{"POD_NAME", "this replica's name in the Lease; required in a pod; without both no Lease is held, and one copy may run", ""},
	{"POSTGRES_ADMIN_DSN_FILE", "file with the admin connection's DSN; read again when it changes", ""},
	{"POSTGRES_HOST", "PostgreSQL's host as a client reaches it, for the Secrets", ""},
	{"POSTGRES_PORT", "PostgreSQL's port as a client reaches it", "5432"},
	{"POSTGRES_SSLMODE", "sslmode for the Secrets; empty: the admin DSN's", ""},
	{"POSTGRES_CA_FILE", "PostgreSQL's CA for the Secrets, PEM; read again when it changes", ""},
	{"PATRONI_IMAGE", "image that brings Patroni into the pods of dedicated Databases", "databases-patroni:dev"},
	{"PROBES_ADDR", "address of the probes, as :8443; required in a pod", ""},
	{"PROBES_TLS_PEM_FILE", "certificate and key of the probes, PEM; required in a pod; read again when it changes", ""},
	{"FAULT_TRUSTED_NAMESPACE_PREFIX", "beginning of the names of the namespaces whose failure scenarios are trusted; empty: none", ""},
	{"FAULT_MAX_DELAY", "longest delay of a failure scenario, 0s to 10m", "10s"},
}

// Describe writes the table of variables, and what is to be known of OpenTelemetry's.
func Describe(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range Variables {
		usage := v.Usage
		if v.Default != "" {
			usage += " (" + v.Default + ")"
		}
		fmt.Fprintf(table, "  %s\t%s\n", v.Name, usage)
	}
	_ = table.Flush() // as with every print to a terminal, there is nobody to tell
	describeTelemetry(w)
}

func defaultOf(name string) string {
	for _, v := range Variables {
		if v.Name == name {
			return v.Default
		}
	}
	panic("settings: " + name + " is not in Variables")
}
