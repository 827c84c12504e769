package testenv

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared is the environment of this test process.
var shared *Environment

// Main is for TestMain: it starts an environment, runs the tests, stops the environment and returns the exit status.
// Tests find the environment by Get.
func Main(m *testing.M, opts ...Option) int {
	env, err := Start(context.Background(), opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	shared = env
	status := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: stop the control plane:", err)
		return max(status, 1)
	}
	return status
}

// Get returns the environment that Main has started.
func Get(t testing.TB) *Environment {
	t.Helper()
	if shared == nil {
		t.Fatal("testenv: no environment: the package's TestMain must call testenv.Main")
	}
	return shared
}

// Namespace makes a namespace for this test alone and returns its name. It is deleted when the test ends, without
// waiting until it is empty.
func Namespace(t testing.TB, c client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.IgnoreNotFound(c.Delete(ctx, namespace)); err != nil {
			t.Errorf("delete namespace %q: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}
