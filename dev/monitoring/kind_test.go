package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// kindFolder has the stack for one machine, in which the program's telemetry goes from one server to the next.
const kindFolder = "../../deploy/kind/"

// object is what these tests read of a manifest.
type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Ports []struct {
			Port int `yaml:"port"`
		} `yaml:"ports"`
		Template struct {
			Spec struct {
				Containers []struct {
					Ports []struct {
						Port int `yaml:"containerPort"`
					} `yaml:"ports"`
					Probe struct {
						Get struct {
							Port any `yaml:"port"`
						} `yaml:"httpGet"`
					} `yaml:"readinessProbe"`
					Mounts []struct {
						Name string `yaml:"name"`
						Path string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				} `yaml:"containers"`
				Volumes []struct {
					Name   string `yaml:"name"`
					Config struct {
						Name string `yaml:"name"`
					} `yaml:"configMap"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

// objects reads all manifests of the stack.
func objects(t *testing.T) []object {
	t.Helper()
	files, err := filepath.Glob(kindFolder + "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", kindFolder, files, err)
	}
	var all []object
	for _, file := range files {
		content, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := yaml.NewDecoder(content); ; {
			var one object
			if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, one)
		}
		content.Close()
	}
	return all
}

// server is one of the stack's: the ports of its Service and of its container, and where ConfigMaps are mounted in it.
type server struct {
	service, container []int
	probe              any
	mounts             map[string]string
}

func servers(t *testing.T) map[string]*server {
	t.Helper()
	all := map[string]*server{}
	for _, o := range objects(t) {
		if o.Kind != "Service" && o.Kind != "Deployment" {
			continue
		}
		s := all[o.Metadata.Name]
		if s == nil {
			s = &server{mounts: map[string]string{}}
			all[o.Metadata.Name] = s
		}
		for _, p := range o.Spec.Ports {
			s.service = append(s.service, p.Port)
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			s.probe = c.Probe.Get.Port
			for _, p := range c.Ports {
				s.container = append(s.container, p.Port)
			}
			for _, v := range o.Spec.Template.Spec.Volumes {
				for _, m := range c.Mounts {
					if m.Name == v.Name && v.Config.Name != "" {
						s.mounts[v.Config.Name] = m.Path
					}
				}
			}
		}
	}
	return all
}

// read is a file of the stack.
func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(kindFolder + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestKindStackFindsItsServers: who is named as host:port has a Service with that port, and a container that listens there.
func TestKindStackFindsItsServers(t *testing.T) {
	all := servers(t)
	for name, s := range all {
		if !slices.Equal(s.service, s.container) {
			t.Errorf("%s: the Service has the ports %v, the container %v", name, s.service, s.container)
		}
	}
	named := regexp.MustCompile(`\b([a-z][a-z-]*):(\d{2,5})\b`)
	for file, want := range map[string][]string{
		"kustomization.yaml": {"collector"}, "collector/config.yaml": {"tempo", "prometheus"}, "grafana/datasources.yaml": {"prometheus", "tempo"},
	} {
		var hosts []string
		for _, m := range named.FindAllStringSubmatch(read(t, file), -1) {
			hosts = append(hosts, m[1])
			port, _ := strconv.Atoi(m[2])
			if s := all[m[1]]; s == nil || !slices.Contains(s.service, port) {
				t.Errorf("%s: no Service of %s has the port %d", file, m[1], port)
			}
		}
		if !slices.Equal(hosts, want) {
			t.Errorf("%s names the servers %q, want %q", file, hosts, want)
		}
	}
	listens := regexp.MustCompile(`(?:0\.0\.0\.0:|http_listen_port: )(\d+)`)
	for _, name := range []string{"collector", "tempo"} {
		have := all[name].service
		if port, ok := all[name].probe.(int); ok {
			have = append(slices.Clone(have), port)
		}
		var want []int
		for _, m := range listens.FindAllStringSubmatch(read(t, name+"/config.yaml"), -1) {
			port, _ := strconv.Atoi(m[1])
			want = append(want, port)
		}
		slices.Sort(want)
		if slices.Sort(have); !slices.Equal(have, want) {
			t.Errorf("%s listens on %v; its Service and its probe have %v", name, want, have)
		}
	}
}

// TestKindStackFindsItsFiles: rules and dashboard are where their readers look for them.
func TestKindStackFindsItsFiles(t *testing.T) {
	all := servers(t)
	if want := "- " + all["prometheus"].mounts["databases-alerts"] + "/alerts.yaml\n"; !strings.Contains(read(t, "prometheus/config.yaml"), want) {
		t.Errorf("Prometheus reads no rules from %s", want)
	}
	if want := "path: " + all["grafana"].mounts["databases-dashboard"] + "\n"; !strings.Contains(read(t, "grafana/dashboards.yaml"), want) {
		t.Errorf("Grafana reads no dashboard from %s", want)
	}
}

// TestKindStackHasTheDashboardsSources: each data source that the dashboard wants, by its type or by its uid, is provisioned.
func TestKindStackHasTheDashboardsSources(t *testing.T) {
	type source struct {
		UID  string `yaml:"uid"`
		Type string `yaml:"type"`
	}
	var provisioned struct {
		Sources []source `yaml:"datasources"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "grafana/datasources.yaml")), &provisioned); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // as the dashboard names it, to its type
	for _, s := range provisioned.Sources {
		known[s.UID] = s.Type
	}
	var chosen struct {
		Templating struct {
			List []struct{ Name, Type, Query any }
		}
	}
	dashboard, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(dashboard, &chosen); err != nil { // JSON is YAML
		t.Fatal(err)
	}
	for _, v := range chosen.Templating.List {
		if v.Type != "datasource" {
			continue
		}
		if !slices.ContainsFunc(provisioned.Sources, func(s source) bool { return s.Type == v.Query }) {
			t.Errorf("no data source of the type %v is provisioned for the variable %v", v.Query, v.Name)
		}
		known["${"+v.Name.(string)+"}"] = v.Query.(string)
	}
	used := regexp.MustCompile(`"datasource": \{\s*"type": "([^"]+)",\s*"uid": "([^"]+)"`).FindAllStringSubmatch(string(dashboard), -1)
	if len(used) < 10 {
		t.Fatalf("only %d data sources were found", len(used))
	}
	for _, u := range used {
		if known[u[2]] != u[1] {
			t.Errorf("the dashboard asks the %s with the uid %s, which isn't there", u[1], u[2])
		}
	}
}

func TestKindStacksPrometheusIsConfigured(t *testing.T) {
	promtool := buildPromtool(t)
	// Without the rules, whose path is one in the pod.
	if output, err := promtool("check", "config", "--syntax-only", kindFolder+"prometheus/config.yaml"); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, output)
	}
}
