package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/example/databases/internal/testenv"
)

// front is a door before the API server: it tells of each request before it passes it on.
type front struct {
	kubeconfig string
	onRequest  atomic.Pointer[func(*http.Request)]
}

func newFront(t *testing.T) *front {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", testenv.Get(t).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // a watch's events at once
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	f := &front{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if told := f.onRequest.Load(); told != nil {
			(*told)(r)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(listener.Close)
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"front": {Server: listener.URL}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"front": {}},
		Contexts:       map[string]*clientcmdapi.Context{"front": {Cluster: "front", AuthInfo: "front"}},
		CurrentContext: "front",
	}, f.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStopWhileStarting has a signal end the program while it waits for the answer to each of the requests that it starts with:
// to be stopped is no failure, and doesn't wait for an API server that doesn't answer.
func TestStopWhileStarting(t *testing.T) {
	for _, c := range []struct {
		name, pod string
		// The Namespace with the cluster's uid, the kinds of two groups, and a list or a watch for each kind, at the least.
		requests int32
	}{
		{"alone", "", 14},
		{"with a Lease", "databases-0", 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFront(t)
			namespace := testenv.Namespace(t, testenv.Get(t).Client()) // without any Database: nothing is in flight
			env := []string{"KUBECONFIG=" + f.kubeconfig, "CONTROLLER_NAMESPACE=" + namespace}
			if c.pod != "" {
				env = append(env, "POD_NAME="+c.pod, "POD_NAMESPACE="+namespace)
			}
			last := int32(0)
			for started := false; !started; {
				last++
				started = stopAt(t, f, last, env)
			}
			if last <= c.requests {
				t.Errorf("only %d requests were made", last-1)
			}
		})
	}
}

// TestStoppedBeforeItStarts: exporters take the end of their context for a failure of their own.
func TestStoppedBeforeItStarts(t *testing.T) {
	env := map[string]string{
		"KUBECONFIG": testenv.Get(t).Kubeconfig, "OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var log testenv.Buffer
	if status := run(ctx, nil, lookup, io.Discard, &log); status != 0 || !strings.Contains(log.String(), `"msg":"stopped while starting"`) {
		t.Errorf("status %d: %s", status, log.String())
	}
}

// stopAt starts the program and stops it when it has made its n-th request, which gets no answer, or once all its controllers
// have started, which it reports.
func stopAt(t *testing.T, f *front, n int32, env []string) (started bool) {
	t.Helper()
	const controllers = 3
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	asked := make(chan struct{})
	told := func(r *http.Request) {
		number := requests.Add(1)
		if number == n {
			close(asked)
		}
		if number >= n {
			_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is noticed
			select {
			case <-r.Context().Done():
			case <-t.Context().Done():
			}
		}
	}
	f.onRequest.Store(&told)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log testenv.Buffer
	cmd := exec.CommandContext(ctx, file)
	cmd.Env, cmd.Stderr = env, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for waiting := true; waiting && !started; {
		select {
		case <-asked:
			waiting = false
		case <-time.After(20 * time.Millisecond):
			started = strings.Count(log.String(), `"msg":"Starting workers"`) == controllers
		case <-ctx.Done():
			t.Fatalf("not so far within a minute: %s", log.String())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	signaled := time.Now()
	if err := cmd.Wait(); err != nil || strings.Count(log.String(), `"msg":"stopped`) != 1 {
		t.Fatalf("stopped at request %d: %v: %s", n, err, log.String())
	}
	// Far below the 32 s that the library gives to the API server's kinds; the Lease's return is given 4 s.
	if took := time.Since(signaled); took > 20*time.Second {
		t.Errorf("stopped at request %d: it took %s", n, took)
	}
	return started
}
