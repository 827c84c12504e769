package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
)

// cluster runs helm against the API server.
func cluster(t *testing.T, values string, arguments ...string) {
	t.Helper()
	arguments = append(arguments, "--namespace", namespace, "--kubeconfig", testenv.Get(t).Kubeconfig)
	if values != "" {
		if _, err := runHelm(t.Context(), values, arguments...); err != nil {
			t.Fatal(err)
		}
		return
	}
	if output, err := exec.CommandContext(t.Context(), helm, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("helm %s: %v: %s", strings.Join(arguments, " "), err, output)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

func get(t *testing.T, c client.Client, name string, o client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		t.Fatalf("%T %s: %v", o, name, err)
	}
}

// withoutDefinitions deletes the CustomResourceDefinitions that testenv has made, so that the chart makes them.
func withoutDefinitions(t *testing.T, c client.Client) {
	t.Helper()
	for _, name := range []string{"databases.database.example.com", "databases.postgres.example.com"} {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		definition.SetName(name)
		eventually(t, name+" is gone", func() bool {
			return apierrors.IsNotFound(client.IgnoreNotFound(c.Delete(t.Context(), definition))) ||
				apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(definition), definition))
		})
	}
}

// TestInstall takes a release through its life on a real API server: nothing that belongs to users goes with it.
func TestInstall(t *testing.T) {
	c := testenv.Get(t).Client()
	withoutDefinitions(t, c)
	enforced(t)
	cluster(t, "settings: {CONTROLLER_RESYNC: 5m}", "install", "databases", chart)
	first, probes := &appsv1.Deployment{}, &corev1.Secret{}
	get(t, c, "databases", first)
	get(t, c, "databases-probes-self", probes)
	if _, err := pair(probes.Data["tls.pem"]); err != nil {
		t.Errorf("the certificate of the probes: %v", err)
	}
	admitted(t, c, first.Spec.Template)

	db := &databasev1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace(t, c), Name: "kept"},
		Spec: databasev1.DatabaseSpec{
			Image: "postgres:15", DatabaseName: "kept", Username: "kept", Storage: databasev1.Storage{Size: "1Gi"},
		},
	}
	eventually(t, "a Database can be made", func() bool { return c.Create(t.Context(), db) == nil })
	for _, example := range []string{"../../deploy/examples/dedicated.yaml", "../../deploy/examples/shared.yaml", "../../deploy/kind/database.yaml"} {
		content, err := os.ReadFile(example)
		if err != nil {
			t.Fatal(err)
		}
		for key, object := range parse(t, string(content)) {
			if err := c.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Errorf("%s of %s: %v", key, example, err)
			}
		}
	}

	cluster(t, "settings: {CONTROLLER_RESYNC: 20m}", "upgrade", "databases", chart)
	second, same := &appsv1.Deployment{}, &corev1.Secret{}
	get(t, c, "databases", second)
	get(t, c, "databases-probes-self", same)
	if key := "checksum/settings"; second.Spec.Template.Annotations[key] == first.Spec.Template.Annotations[key] {
		t.Error("a change of the settings starts no rollout")
	}
	if same.ResourceVersion != probes.ResourceVersion {
		t.Error("an upgrade wrote the certificate of the probes")
	}

	cluster(t, "", "uninstall", "databases")
	eventually(t, "the Deployment is gone", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(second), second))
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(db), db); err != nil || db.DeletionTimestamp != nil {
		t.Errorf("uninstalling touched the Database: %v, %v", err, db.DeletionTimestamp)
	}
	cluster(t, "{}", "install", "databases", chart) // takes over the definitions that it left
	cluster(t, "", "uninstall", "databases")
	// Under another name Helm must be told to.
	arguments := []string{"install", "other", chart, "--namespace", namespace, "--kubeconfig", testenv.Get(t).Kubeconfig}
	if _, err := runHelm(t.Context(), "{}", arguments...); err == nil || !strings.Contains(err.Error(), "CustomResourceDefinition") {
		t.Errorf("another release's definitions: %v", err)
	}
	_ = exec.CommandContext(t.Context(), helm, "uninstall", "other", "--namespace", namespace, "--kubeconfig", testenv.Get(t).Kubeconfig).Run()
	cluster(t, "{}", "install", "other", chart, "--take-ownership")
	cluster(t, "", "uninstall", "other")
}

// TestCertificatesChange: each source of the probes' certificate follows each other one, and a Secret that somebody else made
// stays as it is.
func TestCertificatesChange(t *testing.T) {
	c := testenv.Get(t).Client()
	enforced(t)
	theirs := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "databases-probes"}, // cert-manager's, or probes-certificate.sh's
		Data:       map[string][]byte{"tls.pem": []byte("theirs")},
	}
	if err := c.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), theirs) })
	const own, named = "crds: {install: false}", "{crds: {install: false}, probes: {existingSecret: databases-probes}}"
	cluster(t, own, "install", "databases", chart)
	for i, values := range []string{named, own, named} {
		cluster(t, values, "upgrade", "databases", chart)
		now := &corev1.Secret{}
		get(t, c, "databases-probes", now)
		if now.UID != theirs.UID || now.ResourceVersion != theirs.ResourceVersion {
			t.Errorf("upgrade %d changed a Secret that isn't Helm's", i)
		}
		d := &appsv1.Deployment{}
		get(t, c, "databases", d)
		mounted := d.Spec.Template.Spec.Volumes[0].Secret.SecretName
		get(t, c, mounted, now)
		if (mounted == "databases-probes") != (values == named) {
			t.Errorf("upgrade %d mounts %s", i, mounted)
		}
	}
	cluster(t, "", "uninstall", "databases")
	get(t, c, "databases-probes", &corev1.Secret{})
}

// enforced makes the namespace of the manifests, which enforces Pod Security.
func enforced(t *testing.T) {
	t.Helper()
	c := testenv.Get(t).Client()
	manifest := kustomize(t, "../../deploy/kustomize")["Namespace /databases"]
	if manifest == nil {
		t.Fatal("the manifests have no Namespace")
	}
	if err := c.Create(t.Context(), manifest.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has its service account", func() bool {
		return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
}

// admitted asks the API server whether it would take a pod of the template.
func admitted(t *testing.T, c client.Client, template corev1.PodTemplateSpec) {
	t.Helper()
	if err := dryRun(t.Context(), c, template); err != nil {
		t.Errorf("a pod is refused: %v", err)
	}
}

func dryRun(ctx context.Context, c client.Client, template corev1.PodTemplateSpec) error {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.GenerateName = namespace, "try-"
	return c.Create(ctx, pod, client.DryRunAll)
}

// TestPodSecurity: the API server admits a pod of each template into the namespace, which enforces the standard "restricted".
func TestPodSecurity(t *testing.T) {
	enforced(t)
	c := testenv.Get(t).Client()
	for _, folder := range []string{
		"../../deploy/kustomize", "../../deploy/kustomize/shared-server", "testdata/cert-manager", "testdata/prometheus", "testdata/prometheus-operator",
		"../../deploy/kind",
	} {
		t.Run(folder, func(t *testing.T) {
			all, pods := kustomize(t, folder), 0
			for key := range all {
				if strings.HasPrefix(key, "ServiceAccount ") {
					account := all[key].DeepCopy()
					if err := c.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), account) }) // Helm takes over nothing that it didn't make
				}
			}
			for key := range all {
				if strings.HasPrefix(key, "Deployment ") {
					admitted(t, c, as[appsv1.Deployment](t, all, key).Spec.Template)
					pods++
				}
			}
			if pods == 0 {
				t.Error("there are no Deployments")
			}
		})
	}
	refused := as[appsv1.Deployment](t, kustomize(t, "../../deploy/kustomize"), "Deployment databases/databases").Spec.Template
	refused.Spec.Containers[0].SecurityContext.Capabilities = nil
	if err := dryRun(t.Context(), c, refused); !apierrors.IsForbidden(err) {
		t.Errorf("a pod that keeps its capabilities isn't refused: %v", err)
	}
}

// TestManifestsAreTaken: the API server takes every object of a kind that it knows, strictly, so no field is misspelt.
func TestManifestsAreTaken(t *testing.T) {
	enforced(t)
	c := testenv.Get(t).Client()
	for _, folder := range []string{"../../deploy/kustomize", "../../deploy/kustomize/shared-server", "../../deploy/kind"} {
		for key, object := range kustomize(t, folder) {
			err := c.Create(t.Context(), object.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if client.IgnoreAlreadyExists(err) != nil {
				t.Errorf("%s of %s: %v", key, folder, err)
			}
		}
	}
}

// TestStackIsWhole: what the development stack's pods mount is there or made by up.sh, and images have a version.
func TestStackIsWhole(t *testing.T) {
	all := kustomize(t, "../../deploy/kind")
	script, err := os.ReadFile("../../deploy/kind/up.sh")
	if err != nil {
		t.Fatal(err)
	}
	for key := range all {
		if !strings.HasPrefix(key, "Deployment ") {
			continue
		}
		d := as[appsv1.Deployment](t, all, key)
		if d.Namespace != namespace {
			t.Errorf("%s isn't in the namespace", key)
		}
		for _, v := range d.Spec.Template.Spec.Volumes {
			switch {
			case v.ConfigMap != nil && all["ConfigMap databases/"+v.ConfigMap.Name] == nil:
				t.Errorf("%s mounts the ConfigMap %s, which isn't there", key, v.ConfigMap.Name)
			case v.Secret != nil && v.Secret.SecretName != "databases-probes" && !strings.Contains(string(script), "secret "+v.Secret.SecretName+" "):
				t.Errorf("%s mounts the Secret %s, which up.sh doesn't make", key, v.Secret.SecretName)
			}
		}
		for _, container := range d.Spec.Template.Spec.Containers {
			if _, tag, ok := strings.Cut(container.Image, ":"); !ok || tag == "latest" {
				t.Errorf("%s has the image %s", key, container.Image)
			}
		}
	}
	grafana := as[corev1.Service](t, all, "Service databases/grafana")
	if grafana.Spec.Ports[0].Port != 3000 {
		t.Errorf("Grafana's Service has the port %d", grafana.Spec.Ports[0].Port)
	}
}
