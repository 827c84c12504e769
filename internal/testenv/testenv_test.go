package testenv_test

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/crds"
	"github.com/example/databases/internal/testenv"
)

func TestMain(m *testing.M) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	os.Exit(testenv.Main(m, testenv.WithScheme(scheme)))
}

func TestCRDsAreEstablished(t *testing.T) {
	files, err := crds.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := testenv.Get(t).Client().List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != len(files) {
		t.Errorf("%d CRDs, want one for each of %d files", len(list.Items), len(files))
	}
	for _, crd := range list.Items {
		established := false
		for _, condition := range crd.Status.Conditions {
			established = established || condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
		}
		if !established {
			t.Errorf("CRD %q is not established: %+v", crd.Name, crd.Status.Conditions)
		}
	}
}

func TestRequestsAreNotLimited(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	began := time.Now()
	for range 50 {
		if err := c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	// At client-go's default of five a second, after a burst of ten, these would take eight seconds.
	if took := time.Since(began); took > 7*time.Second {
		t.Errorf("50 requests took %s", took)
	}
}

func TestGarbageIsCollected(t *testing.T) {
	c := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, c)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	if err := c.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "child",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}},
	}}
	if err := c.Create(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	mustGo(t, c, child)
}

func TestNamespacesAreUniqueAndDeleted(t *testing.T) {
	c := testenv.Get(t).Client()
	var names [2]string
	t.Run("make them", func(t *testing.T) {
		names = [2]string{testenv.Namespace(t, c), testenv.Namespace(t, c)}
		if names[0] == names[1] {
			t.Errorf("both are named %q", names[0])
		}
	})
	for _, name := range names {
		mustGo(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// mustGo fails unless the object goes away.
func mustGo(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	for range 600 {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%T %q is there after a minute", object, object.GetName())
}
