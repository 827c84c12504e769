package settings

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/example/databases/internal/postgres"
)

// Settings are the program's settings, checked.
type Settings struct {
	// Kube is the connection to the API server.
	Kube *rest.Config
	// InPod says that the program found the API server by the variables that the kubelet sets.
	InPod bool

	ControllerName string
	// Namespace is the one namespace watched; empty for all.
	Namespace string
	Workers   int
	Resync    time.Duration

	PodNamespace, PodName string

	// Postgres is the shared server; nil where there is none.
	Postgres *Postgres

	ProbesAddr, ProbesTLSFile string

	// PatroniImage is the image that brings Patroni into the pods of dedicated Databases.
	PatroniImage string

	FaultTrustedPrefix string
	FaultMaxDelay      time.Duration

	Telemetry Telemetry
}

// Postgres is the shared server.
type Postgres struct {
	// AdminDSNFile is the file that holds the admin's DSN.
	AdminDSNFile string
	// Host and Port are the server's as a client reaches it.
	Host string
	Port int
	// SSLMode is what Secrets say; empty for the admin DSN's.
	SSLMode string
	// CAFile is the file with the CA for the Secrets; empty for none.
	CAFile string
}

// Read reads and checks every setting. The error has a line for each bad one. lookup is os.LookupEnv's kind.
func Read(lookup func(string) (string, bool)) (Settings, error) {
	r := &reader{lookup: lookup}
	s := Settings{
		ControllerName: r.text("CONTROLLER_NAME", dnsLabel),
		Namespace:      r.text("CONTROLLER_NAMESPACE", optional(dnsLabel)),
		Workers:        r.number("CONTROLLER_WORKERS", 1, 100),
		Resync:         r.duration("CONTROLLER_RESYNC", 10*time.Second, 24*time.Hour),
		PodNamespace:   r.text("POD_NAMESPACE", optional(dnsLabel)),
		PodName:        r.text("POD_NAME", optional(dnsSubdomain)),
		ProbesAddr:     r.text("PROBES_ADDR", optional(address)),
		ProbesTLSFile:  r.text("PROBES_TLS_PEM_FILE", optional(keyPairFile)),

		PatroniImage: r.text("PATRONI_IMAGE", imageReference),

		FaultTrustedPrefix: r.text("FAULT_TRUSTED_NAMESPACE_PREFIX", optional(namespacePrefix)),
		FaultMaxDelay:      r.duration("FAULT_MAX_DELAY", 0, 10*time.Minute),
	}
	r.kube(&s)
	s.Postgres = r.postgres()
	s.Telemetry = r.telemetry()
	if s.InPod {
		for _, name := range []string{"POD_NAMESPACE", "POD_NAME", "PROBES_ADDR", "PROBES_TLS_PEM_FILE"} {
			if r.value(name) == "" {
				r.fault(name, "is required in a pod")
			}
		}
	} else {
		r.together("PROBES_TLS_PEM_FILE", "PROBES_ADDR")
		r.together("POD_NAME", "POD_NAMESPACE")
	}
	return s, r.err()
}

// kube finds the API server.
func (r *reader) kube(s *Settings) {
	if file := r.value("KUBECONFIG"); file != "" {
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			r.fault("KUBECONFIG", "isn't a kubeconfig file with a usable current context: "+reason(err))
			return
		}
		s.Kube = config
	} else {
		s.InPod = true
		hint := "is required (the kubelet sets it in a pod); outside a cluster set KUBECONFIG instead"
		host, port := r.required("KUBERNETES_SERVICE_HOST", hint, host), r.required("KUBERNETES_SERVICE_PORT", hint, port)
		s.Kube = &rest.Config{
			Host:            "https://" + net.JoinHostPort(host, port),
			TLSClientConfig: rest.TLSClientConfig{CAFile: r.text("KUBERNETES_CA_FILE", certificateFile)},
			BearerTokenFile: r.text("KUBERNETES_TOKEN_FILE", nonEmptyFile),
		}
	}
	s.Kube.QPS = -1 // the API server's own priority and fairness limits us
	s.Kube.UserAgent = rest.DefaultKubernetesUserAgent()
}

// postgres reads the shared server; nil where there is none.
func (r *reader) postgres() *Postgres {
	file := r.text("POSTGRES_ADMIN_DSN_FILE", optional(dsnFile))
	p := &Postgres{
		AdminDSNFile: file,
		Host:         r.text("POSTGRES_HOST", optional(host)),
		Port:         r.number("POSTGRES_PORT", 1, 65535),
		SSLMode:      r.text("POSTGRES_SSLMODE", optional(sslMode)),
		CAFile:       r.text("POSTGRES_CA_FILE", optional(certificateFile)),
	}
	hasFile, hasHost := r.value("POSTGRES_ADMIN_DSN_FILE") != "", r.value("POSTGRES_HOST") != ""
	switch {
	case !hasFile && !hasHost:
		return nil
	case !hasFile:
		r.fault("POSTGRES_ADMIN_DSN_FILE", "is required where POSTGRES_HOST is set: the path of a file that holds the admin's DSN")
	case !hasHost:
		r.fault("POSTGRES_HOST", "is required where POSTGRES_ADMIN_DSN_FILE is set: the server's host as a client of the Secrets reaches it")
	}
	return p
}

// together refuses one of two settings without the other.
func (r *reader) together(name, other string) {
	if (r.value(name) == "") != (r.value(other) == "") {
		r.fault(name, "and "+other+" go together: set both or neither")
	}
}

// reader collects faults.
type reader struct {
	lookup func(string) (string, bool)
	faults []string
}

func (r *reader) fault(name, what string) { r.faults = append(r.faults, name+" "+what) }

func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b string) int { return place(a) - place(b) })
	return errors.New(strings.Join(r.faults, "\n"))
}

// place orders faults as --help orders the variables; OpenTelemetry's come last.
func place(fault string) int {
	name, _, _ := strings.Cut(fault, " ")
	if i := slices.IndexFunc(Variables, func(v Variable) bool { return v.Name == name }); i >= 0 {
		return i
	}
	return len(Variables)
}

// value is the variable's value, or its default where it is unset or empty.
func (r *reader) value(name string) string {
	standard := defaultOf(name)
	if value, ok := r.lookup(name); ok && value != "" {
		return value
	}
	return standard
}

func (r *reader) text(name string, check func(string) error) string {
	value := r.value(name)
	if err := check(value); err != nil {
		r.fault(name, err.Error())
	}
	return value
}

func (r *reader) required(name, hint string, check func(string) error) string {
	if r.value(name) == "" {
		r.fault(name, hint)
		return ""
	}
	return r.text(name, check)
}

func (r *reader) number(name string, least, most int) int {
	n, err := strconv.Atoi(r.value(name))
	if err != nil || n < least || n > most {
		r.fault(name, fmt.Sprintf("must be a whole number from %d to %d", least, most))
	}
	return n
}

func (r *reader) duration(name string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(r.value(name))
	if err != nil || d < least || d > most {
		r.fault(name, fmt.Sprintf("must be a duration from %s to %s, as 90s or 10m", short(least), short(most)))
	}
	return d
}

// short writes 10m0s as 10m.
func short(d time.Duration) string {
	s := d.String()
	s = regexp.MustCompile(`([hm])0s$`).ReplaceAllString(s, "$1")
	return regexp.MustCompile(`h0m$`).ReplaceAllString(s, "h")
}

// reason is an error's text without the path, which the caller's variable holds: a value in the wrong variable may
// be a secret.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return "it can't be parsed"
}

func optional(check func(string) error) func(string) error {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return check(s)
	}
}

func dnsLabel(s string) error {
	if len(validation.IsDNS1123Label(s)) > 0 {
		return errors.New("must be lower-case letters, digits and '-', at most 63 characters, beginning and ending with a letter or digit")
	}
	return nil
}

func dnsSubdomain(s string) error {
	if len(validation.IsDNS1123Subdomain(s)) > 0 {
		return errors.New("must be lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit")
	}
	return nil
}

func namespacePrefix(s string) error {
	if len(s) > 63 || !regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`).MatchString(s) {
		return errors.New("must be the beginning of a namespace's name: lower-case letters, digits and '-'")
	}
	return nil
}

func host(s string) error {
	if net.ParseIP(s) != nil || len(validation.IsDNS1123Subdomain(strings.ToLower(s))) == 0 {
		return nil
	}
	return errors.New("must be a host name or an IP address, without a port")
}

func imageReference(s string) error {
	if _, err := name.ParseReference(s); err != nil {
		return errors.New("must be an image reference, as databases-patroni:1.0")
	}
	return nil
}

func port(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > 65535 {
		return errors.New("must be a port from 1 to 65535")
	}
	return nil
}

func address(s string) error {
	h, p, err := net.SplitHostPort(s)
	if err != nil || port(p) != nil || h != "" && host(h) != nil {
		return errors.New("must be HOST:PORT or :PORT")
	}
	return nil
}

var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

func sslMode(s string) error {
	if !slices.Contains(sslModes, s) {
		return errors.New("must be one of " + strings.Join(sslModes, ", "))
	}
	return nil
}

func nonEmptyFile(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return errors.New("names a file that can't be read: " + reason(err))
	}
	if len(strings.TrimSpace(string(content))) == 0 {
		return errors.New("names a file that is empty")
	}
	return nil
}

func certificateFile(file string) error {
	if err := nonEmptyFile(file); err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(content) {
		return errors.New("names a file without a PEM certificate")
	}
	return nil
}

func keyPairFile(file string) error {
	if err := nonEmptyFile(file); err != nil {
		return err
	}
	if _, err := tls.LoadX509KeyPair(file, file); err != nil {
		return errors.New("names a file that doesn't hold a PEM certificate and its private key")
	}
	return nil
}

func dsnFile(file string) error {
	if strings.Contains(file, "://") || strings.Contains(file, "=") {
		return errors.New("must be the path of a file that holds the DSN, not the DSN itself")
	}
	_, err := postgres.ReadDSN(file)
	var path *os.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path):
		return errors.New("names a file that can't be read: " + path.Err.Error())
	}
	return errors.New("names a file that can't be used: " + strings.TrimPrefix(err.Error(), file+": "))
}

// AdminDSNFile reads the one setting that a command needs which speaks to PostgreSQL only.
func AdminDSNFile(lookup func(string) (string, bool)) (string, error) {
	r := &reader{lookup: lookup}
	return r.required("POSTGRES_ADMIN_DSN_FILE", "is required: the path of a file that holds the admin's DSN", dsnFile), r.err()
}

// KubeConfig reads the settings that a command needs which speaks to the API server only.
func KubeConfig(lookup func(string) (string, bool)) (*rest.Config, error) {
	r := &reader{lookup: lookup}
	var s Settings
	r.kube(&s)
	return s.Kube, r.err()
}
