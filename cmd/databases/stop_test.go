package main

import (
	"context"
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
// to be stopped is no failure.
func TestStopWhileStarting(t *testing.T) {
	const controllers = 3
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	f := newFront(t)
	last, started := int32(0), false
	for n := int32(1); !started; n++ {
		last = n
		var requests atomic.Int32
		asked := make(chan struct{})
		told := func(r *http.Request) {
			if requests.Add(1) == n {
				close(asked)
			}
			if requests.Load() >= n {
				<-r.Context().Done()
			}
		}
		f.onRequest.Store(&told)
		var log testenv.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, file)
		cmd.Env, cmd.Stderr = []string{"KUBECONFIG=" + f.kubeconfig}, &log
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
		if err := cmd.Wait(); err != nil || strings.Count(log.String(), `"msg":"stopped`) != 1 {
			t.Errorf("stopped at request %d: %v: %s", last, err, log.String())
		}
	}
	// The Namespace with the cluster's uid, the kinds of two groups, and a list or a watch for each kind, at the least.
	if last < 15 {
		t.Errorf("only %d requests were made", last)
	}
}
