//go:build e2e

package e2e

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/settings"
)

// startHere runs the controller in this process, with something put around each of its API requests. The function
// that it returns stops it.
func (w *world) startHere(wrap func(http.RoundTripper) http.RoundTripper, change ...func(*manager.Options)) (stop func()) {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	config.QPS = -1
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	options := manager.Options{
		Settings: settings.Settings{
			Kube: config, ControllerName: "databases-controller", Namespace: w.namespace, Workers: 10,
			Resync: time.Hour, PatroniImage: "databases-patroni:dev",
		},
		Log: slog.New(slog.NewJSONHandler(&w.log, nil)), HTTP: wrap,
	}
	for _, f := range change {
		f(&options)
	}
	go func() { done <- manager.Run(ctx, options) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the controller: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}
