// Command standin takes the place of programs that can't be had without a registry, in tests of the manifests that run them: it
// answers every HTTP request at their ports, whatever its arguments.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

// ports are those that the manifests of deploy/kind name: Grafana's, Tempo's, OTLP's, Prometheus' and the collector's health.
var ports = []int{3000, 3200, 4317, 4318, 9090, 13133}

func main() {
	failed := make(chan error)
	for _, port := range ports {
		server := &http.Server{Addr: fmt.Sprintf(":%d", port), ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(ok)}
		go func() { failed <- server.ListenAndServe() }()
	}
	fmt.Fprintln(os.Stderr, "standin:", <-failed)
	os.Exit(1)
}

func ok(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
