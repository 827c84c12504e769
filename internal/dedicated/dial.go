package dedicated

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go's dialer still speaks in its types
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
	return func(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error) {
		transport, upgrader, err := spdy.RoundTripperFor(config) // each is good for one connection
		if err != nil {
			return nil, fmt.Errorf("forwarding a port of the pod: %w", err)
		}
		url := core.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
		return forward(ctx, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), port)
	}, nil
}

// forward opens the two streams of a forwarded port. The library's own forwarder listens on a port of this machine,
// where every program could connect, and logs an error for each connection that ends.
func forward(ctx context.Context, dialer httpstream.Dialer, port int) (net.Conn, error) {
	session, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port of the pod: %w", err)
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := session.CreateStream(headers)
	if err == nil {
		_ = failures.Close() // nothing is written to it
		headers.Set(corev1.StreamType, corev1.StreamTypeData)
		var data httpstream.Stream
		if data, err = session.CreateStream(headers); err == nil && ctx.Err() == nil {
			return &forwarded{Stream: data, session: session}, nil
		}
	}
	_ = session.Close()
	return nil, fmt.Errorf("forwarding a port of the pod: %w", cmp.Or(err, ctx.Err()))
}

// forwarded is a connection through the API server. Its streams know no deadlines: one that is past closes it, which
// is what a cancelled context asks for.
type forwarded struct {
	httpstream.Stream
	session httpstream.Connection

	mu    sync.Mutex
	timer *time.Timer
}

func (f *forwarded) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopTimer()
	return f.session.Close()
}

func (f *forwarded) stopTimer() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

func (f *forwarded) SetDeadline(t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopTimer()
	if !t.IsZero() {
		f.timer = time.AfterFunc(time.Until(t), func() { _ = f.session.Close() })
	}
	return nil
}

func (f *forwarded) SetReadDeadline(t time.Time) error  { return f.SetDeadline(t) }
func (f *forwarded) SetWriteDeadline(t time.Time) error { return f.SetDeadline(t) }
func (f *forwarded) LocalAddr() net.Addr                { return throughAPI{} }
func (f *forwarded) RemoteAddr() net.Addr               { return throughAPI{} }

// throughAPI is the address of both ends of a forwarded connection.
type throughAPI struct{}

func (throughAPI) Network() string { return "portforward" }
func (throughAPI) String() string  { return "pod" }
