package dedicated

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Dialer opens a connection to a port of a pod.
type Dialer func(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error)

// DialDirectly reaches pods by their addresses, as another pod does.
func DialDirectly(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)))
}

// DialThroughAPI reaches pods through the API server's port-forward, for a program outside the cluster.
func DialThroughAPI(config *rest.Config) (Dialer, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	core, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error) {
		url := core.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
		return forward(ctx, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), port)
	}, nil
}

// forward lets the library listen on a port of its choice of this machine's loopback and connects to it.
func forward(ctx context.Context, dialer httpstream.Dialer, port int) (net.Conn, error) {
	stop, ready, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return nil, fmt.Errorf("forwarding a port of the pod: %w", err)
	case <-ctx.Done():
		close(stop)
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err == nil {
		var direct net.Dialer
		var conn net.Conn
		conn, err = direct.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
		if err == nil {
			return &forwarded{Conn: conn, stop: stop}, nil
		}
	}
	close(stop)
	return nil, err
}

// forwarded ends its forwarding when it is closed.
type forwarded struct {
	net.Conn
	stop chan struct{}
	once sync.Once
}

func (f *forwarded) Close() error {
	err := f.Conn.Close()
	f.once.Do(func() { close(f.stop) })
	return err
}
