package testenv

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// leakLength is how long a piece of a secret may not be found.
const leakLength = 8

// FindLeak returns the surroundings of the first piece of a secret in the text, in clear, in hexadecimal or in base64, where
// what stands before it in the same value may have any length; empty where there is none.
func FindLeak(text string, secrets ...string) string {
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			for i := 0; i+leakLength <= len(form); i++ {
				if at := strings.Index(text, form[i:i+leakLength]); at >= 0 {
					return text[max(0, at-80):at] + "…"
				}
			}
		}
	}
	return ""
}

// forms are how a secret may be written. In base64 three bytes are four letters, so a part of a longer value has three forms;
// letters at the ends that depend on the neighbours too are left out.
func forms(secret string) []string {
	all := []string{secret, hex.EncodeToString([]byte(secret))}
	for shift := range 3 {
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		begin, end := (shift*4+2)/3, len(secret)+shift
		all = append(all, whole[begin:end/3*4])
	}
	return all
}
