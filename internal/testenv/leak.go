package testenv

import (
	"encoding/base64"
	"strings"
)

// leakLength is how long a piece of a secret may not be found.
const leakLength = 8

// FindLeak returns the surroundings of the first piece of a secret in the text, in clear or in base64; empty where there
// is none.
func FindLeak(text string, secrets ...string) string {
	for _, secret := range secrets {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			for i := 0; i+leakLength <= len(form); i++ {
				if at := strings.Index(text, form[i:i+leakLength]); at >= 0 {
					return text[max(0, at-80):at] + "…"
				}
			}
		}
	}
	return ""
}
