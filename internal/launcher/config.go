package launcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"
)

// identMap lets the pod's own user be both roles on the local socket.
const identMap = "databases"

// Pod is what Patroni must know of the pod and of the image in it.
type Pod struct {
	Name, Namespace, IP string
	PGData              string
	RunDir              string
	User                string // the operating system's name of the pod's user
	Program             string // the launcher, for Patroni's callbacks
	Image               *Inspection
}

// Credentials are the passwords of Patroni's two roles and of its REST interface.
type Credentials struct {
	Superuser, Replication, REST string
}

// Config is Patroni's configuration file: the controller's template with what only the pod knows. The template wins
// where both speak, except for names, addresses and credentials.
func Config(template []byte, pod Pod, credentials Credentials) ([]byte, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal(template, &config); err != nil {
		return nil, fmt.Errorf("reading %s: not YAML of an object: %w", EnvTemplate, err)
	}
	defaults, err := defaultConfig(pod, config)
	if err != nil {
		return nil, err
	}
	merge(config, defaults, false)
	merge(config, fixedConfig(pod, credentials), true)
	return encode(config)
}

// encode writes JSON, which is YAML as well: there is no plain scalar that another reader could take for a number, and
// what YAML doesn't let stand in a text is escaped.
func encode(config object) ([]byte, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(config); err != nil {
		return nil, fmt.Errorf("writing Patroni's configuration: %w", err)
	}
	var escaped bytes.Buffer
	for _, r := range content.String() {
		if (r >= 0x7f && r <= 0x9f) || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes(), nil
}

type object = map[string]any

func fixedConfig(pod Pod, credentials Credentials) object {
	return object{
		"name":       pod.Name,
		"tags":       pod.Image.tags(),
		"kubernetes": object{"pod_ip": pod.IP, "namespace": pod.Namespace},
		"restapi": object{
			"connect_address": address(pod.IP, PortREST),
			"authentication":  object{"username": UserREST, "password": credentials.REST},
		},
		"postgresql": object{
			"connect_address": address(pod.IP, PortPostgres),
			"data_dir":        pod.PGData,
			"bin_dir":         pod.Image.BinDir,
			"pgpass":          pod.RunDir + "/pgpass",
			"authentication": object{
				"superuser":   object{"username": RoleSuperuser, "password": credentials.Superuser},
				"replication": object{"username": RoleReplication, "password": credentials.Replication},
			},
			// Local connections need no password, so a volume with another password can be adopted.
			"use_unix_socket":      true,
			"use_unix_socket_repl": true,
			"parameters":           object{"unix_socket_directories": pod.RunDir},
		},
	}
}

// tags publish what the image holds: Patroni shows them in its annotation of the pod.
func (i *Inspection) tags() object {
	return object{TagPostgresVersion: i.PostgresVersion, TagMajor: i.Major, TagCollationVersion: i.CollationVersion}
}

func defaultConfig(pod Pod, template object) (object, error) {
	initdb, err := initdbOptions(template, pod.Image.Major)
	if err != nil {
		return nil, err
	}
	callback := pod.Program + " credentials"
	return object{
		"bootstrap": initdb,
		"restapi":   object{"listen": listen(pod.IP, PortREST)},
		"postgresql": object{
			"listen":    fmt.Sprintf("*:%d", PortPostgres),
			"callbacks": object{"on_start": callback, "on_role_change": callback, "on_reload": callback},
			"pg_hba": []any{
				fmt.Sprintf("local all %s peer map=%s", RoleSuperuser, identMap),
				fmt.Sprintf("local replication %s peer map=%s", RoleReplication, identMap),
				fmt.Sprintf("host replication %s all scram-sha-256", RoleReplication),
				"host all all all scram-sha-256",
			},
			"pg_ident": []any{
				fmt.Sprintf("%s %s %s", identMap, pod.User, RoleSuperuser),
				fmt.Sprintf("%s %s %s", identMap, pod.User, RoleReplication),
			},
		},
	}, nil
}

// initdbOptions adds to the template's options those that every new database has. C.UTF-8 sorts by code point and so
// never changes with glibc; from 17 on PostgreSQL brings it itself.
func initdbOptions(template object, major int) (object, error) {
	bootstrap, _ := template["bootstrap"].(object)
	options, given, err := listOptions(bootstrap["initdb"])
	if err != nil {
		return nil, err
	}
	add := func(name, value string) {
		if !given[name] {
			options = append(options, object{name: value})
		}
	}
	if !given["data-checksums"] && !given["no-data-checksums"] {
		options = append(options, "data-checksums")
	}
	add("encoding", "UTF8")
	if !given["no-locale"] {
		add("locale", "C.UTF-8")
	}
	if major >= 17 && !given["locale-provider"] && !given["no-locale"] {
		add("locale-provider", "builtin")
		add("builtin-locale", "C.UTF-8")
	}
	if !given["auth"] {
		// Patroni puts its own pg_hba.conf in place before the server starts; until then nobody is trusted either.
		add("auth-host", "scram-sha-256")
		add("auth-local", "peer")
	}
	if bootstrap == nil {
		return object{"initdb": options}, nil
	}
	bootstrap["initdb"] = options
	return object{}, nil
}

// listOptions reads Patroni's two forms of options, a list of names and single pairs, or an object.
func listOptions(value any) ([]any, map[string]bool, error) {
	given := map[string]bool{}
	var options []any
	switch value := value.(type) {
	case nil:
	case object:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			given[name] = true
			options = append(options, object{name: value[name]})
		}
	case []any:
		for _, option := range value {
			switch option := option.(type) {
			case string:
				given[option] = true
			case object:
				for name := range option {
					given[name] = true
				}
			}
		}
		options = append(options, value...)
	default:
		return nil, nil, fmt.Errorf("reading %s: bootstrap.initdb is neither a list nor an object", EnvTemplate)
	}
	return options, given, nil
}

// merge adds one tree to another. Where both have a leaf, the one added wins only with override.
func merge(into, from object, override bool) {
	for key, value := range from {
		have, exists := into[key]
		branch, isBranch := value.(object)
		if haveBranch, ok := have.(object); ok && isBranch {
			merge(haveBranch, branch, override)
			continue
		}
		if !exists || have == nil || override {
			into[key] = value
		}
	}
}

func address(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }

// listen is all addresses of the pod's family. Patroni takes [::] for both where there is IPv6.
func listen(ip string, port int) string {
	if parsed := net.ParseIP(ip); parsed != nil && parsed.To4() == nil {
		return address("::", port)
	}
	return address("0.0.0.0", port)
}
