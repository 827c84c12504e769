package testenv

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

func TestFindLeak(t *testing.T) {
	const secret = "QZ7WK3PVMXH2BN5T"
	for what, text := range map[string]string{
		"in clear": "password=" + secret, "eight bytes of it": "…" + secret[4:12] + "…", "in hexadecimal": hex.EncodeToString([]byte("x" + secret)),
	} {
		if FindLeak(text, secret) == "" {
			t.Errorf("%s: not found", what)
		}
	}
	for shift := range 6 {
		uri := strings.Repeat("u", shift) + "postgresql://orders:" + secret + "@h:5432/orders"
		if FindLeak(base64.StdEncoding.EncodeToString([]byte(uri)), secret) == "" {
			t.Errorf("in base64, %d bytes further on: not found", shift)
		}
	}
	for _, text := range []string{"", "nothing at all", secret[:7], base64.StdEncoding.EncodeToString([]byte("postgresql://orders:another@h:5432/orders"))} {
		if found := FindLeak(text, secret); found != "" {
			t.Errorf("%q: found %q", text, found)
		}
	}
}
