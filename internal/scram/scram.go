// Package scram makes SCRAM-SHA-256 verifiers, so that PostgreSQL never sees a password: it takes a verifier as it is
// where a password is expected. No library makes one: drivers only have the client's side of SCRAM.
//
// Invariants: a verifier is base64 and "$", ":", "-", so nothing in it needs quoting; no password is in an error.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/xdg-go/stringprep"
)

const (
	iterations    = 4096 // PostgreSQL's own default; every login pays for them
	maxIterations = 1 << 20
	saltBytes     = 16
)

// Verifier is a password's verifier with a salt of its own, as PostgreSQL stores it (RFC 5803's form).
func Verifier(password string) (string, error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails; see crypto/rand
	return verifier(password, salt, iterations)
}

// Matches tells whether a stored verifier is the password's. What isn't SCRAM, as an old md5 hash, isn't.
func Matches(stored, password string) bool {
	rest, ok := strings.CutPrefix(stored, "SCRAM-SHA-256$")
	if !ok {
		return false
	}
	count, rest, _ := strings.Cut(rest, ":")
	encoded, _, ok := strings.Cut(rest, "$")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || n > maxIterations {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	computed, err := verifier(password, salt, n)
	return err == nil && hmac.Equal([]byte(computed), []byte(stored))
}

func verifier(password string, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, Prepare(password), salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("computing the SCRAM verifier: %w", err)
	}
	storedKey := sha256.Sum256(mac(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(storedKey[:]), b64(mac(salted, "Server Key"))), nil
}

// Prepare normalizes a password as PostgreSQL and libpq do: by SASLprep, and not at all where that is impossible.
func Prepare(password string) string {
	prepared, err := stringprep.SASLprep.Prepare(password)
	if err != nil || prepared == "" {
		return password
	}
	return prepared
}

func mac(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}
