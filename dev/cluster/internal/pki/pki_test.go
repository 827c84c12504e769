package pki

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		t.Fatalf("%s holds no PEM", file)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestIssue(t *testing.T) {
	folder := t.TempDir()
	mine, err := NewAuthority(folder, "mine")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority(folder, "other")
	if err != nil {
		t.Fatal(err)
	}
	server, err := mine.Issue("server", Subject{CommonName: "s", Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	user, err := mine.Issue("user", Subject{CommonName: "u", Groups: []string{"g"}})
	if err != nil {
		t.Fatal(err)
	}
	if subject := read(t, user.Certificate).Subject; subject.CommonName != "u" || strings.Join(subject.Organization, " ") != "g" {
		t.Errorf("the user's subject is %s", subject)
	}
	for _, test := range []struct {
		sentence    string
		certificate string
		authority   *Authority
		host        string
		usage       x509.ExtKeyUsage
		valid       bool
	}{
		{"a server serves its address", server.Certificate, mine, "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"a server serves its name", server.Certificate, mine, "localhost", x509.ExtKeyUsageServerAuth, true},
		{"a server serves no other name", server.Certificate, mine, "example.com", x509.ExtKeyUsageServerAuth, false},
		{"a server may be a client", server.Certificate, mine, "", x509.ExtKeyUsageClientAuth, true},
		{"a user is a client", user.Certificate, mine, "", x509.ExtKeyUsageClientAuth, true},
		{"a user is no server", user.Certificate, mine, "", x509.ExtKeyUsageServerAuth, false},
		{"a user is nobody to another authority", user.Certificate, other, "", x509.ExtKeyUsageClientAuth, false},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AddCert(read(t, test.authority.Files().Certificate))
			_, err := read(t, test.certificate).Verify(x509.VerifyOptions{
				Roots: roots, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage},
			})
			if (err == nil) != test.valid {
				t.Errorf("valid = %t, want %t (%v)", err == nil, test.valid, err)
			}
		})
	}
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	folder := t.TempDir()
	authority, err := NewAuthority(folder, "ca")
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Issue("client", Subject{CommonName: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := WriteKeyPair(folder, "tokens"); err != nil {
		t.Fatal(err)
	}
	kubeconfig := Kubeconfig{
		Cluster: "dev", Server: "https://127.0.0.1:1", Authority: authority.Files().Certificate, User: "c", Client: client,
	}
	if err := kubeconfig.Write(filepath.Join(folder, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 7 {
		t.Fatalf("%d files, want 7 (%v)", len(files), err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", file.Name(), info.Mode().Perm())
		}
	}
	content, err := os.ReadFile(filepath.Join(folder, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "$") || !strings.Contains(string(content), "server: https://127.0.0.1:1\n") {
		t.Errorf("the kubeconfig is not filled in:\n%s", content)
	}
}
