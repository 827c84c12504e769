package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/example/databases/dev/cluster/internal/pki"
)

// probe is a client of one authority's servers.
type probe struct{ client *http.Client }

func newProbe(authority string, identity pki.Pair) (*probe, error) {
	trusted, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(identity.Certificate, identity.Key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}}
	return &probe{client: &http.Client{Transport: transport, Timeout: 2 * time.Second}}, nil
}

// check returns nil if the address answers with success.
func (p *probe) check(ctx context.Context, url string) error {
	_, err := p.get(ctx, url)
	return err
}

// get returns what the address answers with success.
func (p *probe) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		first, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return nil, fmt.Errorf("%s answers %s: %s", url, response.Status, first)
	}
	return body, nil
}

// await checks until the address answers with success, which it must within the limit.
func (p *probe) await(ctx context.Context, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not healthy after %s", limit))
	defer cancel()
	return poll(ctx, func() error { return p.check(ctx, url) })
}

// poll checks until that succeeds or the context ends, whose cause it returns with the last error.
func poll(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
