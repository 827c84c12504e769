package scram

import (
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, password := range []string{"secret", "", "ü", "ﬁ", "a\u00a0b", strings.Repeat("x", 200)} {
		stored, err := Verifier(password)
		if err != nil {
			t.Fatal(err)
		}
		if !Matches(stored, password) {
			t.Errorf("%q doesn't match its own verifier", password)
		}
		if Matches(stored, password+"x") {
			t.Errorf("%q matches another password", password)
		}
	}
	// What PostgreSQL 15 made of ALTER ROLE ... PASSWORD 'pencil' with another count of iterations fits too.
	other, err := verifier("pencil", []byte("salt of sixteen!"), 1000)
	if err != nil || !Matches(other, "pencil") {
		t.Errorf("another count of iterations: error %v", err)
	}
	for name, stored := range map[string]string{
		"md5":                     "md5a3f0c1d2e3b4a5968778695a4b3c2d1e",
		"nothing":                 "",
		"no keys":                 "SCRAM-SHA-256$4096:c2FsdA==",
		"no count":                "SCRAM-SHA-256$:c2FsdA==$a:b",
		"a count without end":     "SCRAM-SHA-256$2000000000:c2FsdA==$a:b",
		"a salt that isn't one":   "SCRAM-SHA-256$4096:!!$a:b",
		"a count that isn't one":  "SCRAM-SHA-256$x:c2FsdA==$a:b",
		"keys of something other": "SCRAM-SHA-256$4096:c2FsdA==$a:b",
	} {
		if Matches(stored, "secret") {
			t.Errorf("%s matches", name)
		}
	}
}

// TestVerifierIsPostgres compares with RFC 7677's example.
func TestVerifierIsPostgres(t *testing.T) {
	const want = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if !Matches(want, "pencil") {
		t.Error("the verifier of RFC 7677's example doesn't match its password")
	}
}
