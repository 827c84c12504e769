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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		first, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		return fmt.Errorf("%s answers %s: %s", url, response.Status, first)
	}
	return nil
}

// await checks until the address answers with success, which it must within the limit.
func (p *probe) await(ctx context.Context, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not healthy after %s", limit))
	defer cancel()
	for {
		err := p.check(ctx, url)
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
