package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

const (
	chart     = "../../deploy/chart"
	namespace = "databases"
)

// helm is the program that the tests build.
var helm string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "databases-chart-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	helm = filepath.Join(folder, "helm")
	build := exec.Command("go", "build", "-o", helm, "helm.sh/helm/v4/cmd/helm")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building helm:", err)
		return 1
	}
	// Helm keeps nothing of its own outside the test.
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		if err := os.Setenv(name, folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	log.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, databasev1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return testenv.Main(m, testenv.WithScheme(scheme))
}

// runHelm runs helm with values as YAML and returns what it prints.
func runHelm(ctx context.Context, values string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, helm, append(arguments, "--values", "-")...)
	command.Stdin = strings.NewReader(values)
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("helm %s: %w: %s", strings.Join(arguments, " "), err, said.String())
	}
	return string(output), nil
}

// objects are manifests by kind and name.
type objects map[string]*unstructured.Unstructured

func parse(t *testing.T, manifests string) objects {
	t.Helper()
	all := objects{}
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(manifests, -1) {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(object) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: object}
		key := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = u
	}
	return all
}

// helmTemplate renders the chart as Helm does.
func helmTemplate(t *testing.T, values string) objects {
	t.Helper()
	output, err := runHelm(t.Context(), values, "template", "databases", chart, "--namespace", namespace)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, output)
}

// kustomize renders a folder as kubectl kustomize does.
func kustomize(t *testing.T, folder string) objects {
	t.Helper()
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := result.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(manifests))
}

// pair reads a certificate and its key from one file's content.
func pair(pem []byte) (tls.Certificate, error) { return tls.X509KeyPair(pem, pem) }
