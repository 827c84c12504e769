package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/xdg-go/stringprep"
)

const (
	scramIterations = 4096 // PostgreSQL's own default; every login pays for them
	scramSaltBytes  = 16
)

// verifier is the SCRAM-SHA-256 verifier of a password as PostgreSQL stores it (RFC 5803's form). The server takes it
// as it is where a password is expected, so that it never sees the password itself. No library makes one: drivers
// only have the client's side of SCRAM.
func verifier(password string) (string, error) {
	salt := make([]byte, scramSaltBytes)
	rand.Read(salt) // never fails; see crypto/rand
	return verifierWithSalt(password, salt)
}

func verifierWithSalt(password string, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, prepare(password), salt, scramIterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("computing the SCRAM verifier: %w", err)
	}
	storedKey := sha256.Sum256(mac(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, b64(salt), b64(storedKey[:]), b64(mac(salted, "Server Key"))), nil
}

// prepare normalizes a password as PostgreSQL and libpq do: by SASLprep, and not at all where that is impossible.
func prepare(password string) string {
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

// checkPassword refuses what no client could send.
func checkPassword(password string) error {
	switch {
	case strings.ContainsRune(password, 0):
		return fmt.Errorf("the password has a NUL byte")
	case len(password) > 1000: // libpq and PostgreSQL's own prompts end near there
		return fmt.Errorf("the password has more than 1000 bytes")
	}
	return nil
}
