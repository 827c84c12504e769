package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Lifetime is how long certificates are valid.
const Lifetime = 30 * 24 * time.Hour

// Authority is a certificate authority whose files are <folder>/<name>.crt and .key.
type Authority struct {
	folder      string
	name        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Pair names the files of a certificate and its private key.
type Pair struct{ Certificate, Key string }

// Subject is whom a certificate is for: Kubernetes takes CommonName as the user and Groups as its groups. Hosts
// are the names and addresses that it may serve.
type Subject struct {
	CommonName string
	Groups     []string
	Hosts      []string
}

// NewAuthority makes an authority and writes its files.
func NewAuthority(folder, name string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	a := &Authority{folder: folder, name: name, certificate: template, key: key}
	der, err := a.sign(template, key)
	if err != nil {
		return nil, err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read authority %q back: %w", name, err)
	}
	return a, write(a.Files(), der, key)
}

// Files names the authority's own files.
func (a *Authority) Files() Pair { return pair(a.folder, a.name) }

// Issue makes a certificate, both for serving and as a client, and writes it to <folder>/<name>.crt and .key.
func (a *Authority) Issue(name string, subject Subject) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template, err := newTemplate(pkix.Name{CommonName: subject.CommonName, Organization: subject.Groups})
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, host := range subject.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(subject.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := a.sign(template, key)
	if err != nil {
		return Pair{}, err
	}
	files := pair(a.folder, name)
	return files, write(files, der, key)
}

// WriteKeyPair makes the two halves of a key, as service account tokens are signed and checked with, and writes
// them to <folder>/<name>.pub and .key.
func WriteKeyPair(folder, name string) (public, private string, err error) {
	key, err := newKey()
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("encode key %q: %w", name, err)
	}
	public = filepath.Join(folder, name+".pub")
	private = filepath.Join(folder, name+".key")
	if err := writePEM(public, "PUBLIC KEY", der); err != nil {
		return "", "", err
	}
	return public, private, writeKey(private, key)
}

func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate for %q: %w", template.Subject.CommonName, err)
	}
	return der, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Minute), // clocks of containers may lag
		NotAfter:     now.Add(Lifetime),
	}, nil
}

func pair(folder, name string) Pair {
	return Pair{Certificate: filepath.Join(folder, name+".crt"), Key: filepath.Join(folder, name+".key")}
}

func write(files Pair, der []byte, key *ecdsa.PrivateKey) error {
	if err := writePEM(files.Certificate, "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(files.Key, key)
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key for %s: %w", file, err)
	}
	return writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
