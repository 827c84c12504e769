package pki

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: $cluster
  cluster:
    server: $server
    certificate-authority-data: $authority
users:
- name: $user
  user:
    client-certificate-data: $certificate
    client-key-data: $key
contexts:
- name: $cluster
  context:
    cluster: $cluster
    user: $user
current-context: $cluster
`

// Kubeconfig says where an API server is and who its user is there.
type Kubeconfig struct {
	Cluster   string // its name, as shown by kubectl
	Server    string // https://host:port
	Authority string // file of the certificate that the server's is checked with
	User      string
	Client    Pair
}

// Write writes the kubeconfig with everything it needs inside, readable by its owner only.
func (k Kubeconfig) Write(file string) error {
	values := []string{"$cluster", k.Cluster, "$server", k.Server, "$user", k.User}
	for name, source := range map[string]string{
		"$authority":   k.Authority,
		"$certificate": k.Client.Certificate,
		"$key":         k.Client.Key,
	} {
		content, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
		values = append(values, name, base64.StdEncoding.EncodeToString(content))
	}
	return os.WriteFile(file, []byte(strings.NewReplacer(values...).Replace(kubeconfig)), 0o600)
}
