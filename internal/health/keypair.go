package health

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"

	"github.com/example/databases/internal/reload"
)

// keyPair is a certificate and its key in a file that may be replaced.
type keyPair struct {
	file *reload.File
	log  *slog.Logger

	mu      sync.Mutex
	seen    []byte // the content that was looked at last, good or not
	refused error  // why that can't be used
	failing bool   // said once, not at each handshake
	good    *tls.Certificate
}

func newKeyPair(file string, log *slog.Logger) (*keyPair, error) {
	p := &keyPair{file: reload.NewFile(file), log: log}
	content, err := p.file.Content()
	if err == nil {
		err = p.parse(content)
	}
	if err != nil {
		return nil, fmt.Errorf("the probes' certificate: %w", err)
	}
	return p, nil
}

// get is a tls.Config's GetCertificate.
func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	content, err := p.file.Content()
	p.mu.Lock()
	defer p.mu.Unlock()
	same := bytes.Equal(content, p.seen)
	switch {
	case err == nil && same:
		err = p.refused
	case err == nil:
		p.refused = p.parse(content)
		if err = p.refused; err == nil {
			p.log.Info("the probes' certificate was replaced")
		}
	}
	if err != nil && (!p.failing || !same) {
		p.log.Error("the probes' new certificate can't be used; the old one stays in use", "err", err)
	}
	p.failing = err != nil
	return p.good, nil
}

func (p *keyPair) parse(content []byte) error {
	p.seen = content
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		return err // names what is missing and quotes nothing
	}
	p.good = &pair
	return nil
}
