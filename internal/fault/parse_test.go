package fault

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `at character 1, "": there must be an operation, as in provision=3*error`,
		" ; ":                          `at character 1, " ": there must be an operation, as in provision=3*error`,
		"provisoin=error":              `at character 1, "provisoin=error": there must be an operation: provision, drop, check-login, read-secret or apply-secret`,
		"drop=error; Drop=off":         `at character 13, "Drop=off": there must be an operation: provision, drop, check-login, read-secret or apply-secret`,
		"drop":                         `at character 5, "": there must be = after the operation`,
		"drop=eror":                    `at character 6, "eror": there must be error, conflict, panic, delay(2s) or off`,
		"drop=3*":                      `at character 8, "": there must be error, conflict, panic, delay(2s) or off`,
		"drop=3 error":                 `at character 6, "3 error": there may be N* or 1/N* with N up to 1000000, as in 3*error`,
		"drop=0*error":                 `at character 6, "0*error": there may be N* or 1/N* with N up to 1000000, as in 3*error`,
		"drop=1000001*error":           `at character 6, "1000001*error": there may be N* or 1/N* with N up to 1000000, as in 3*error`,
		"drop=2/3*error":               `at character 6, "2/3*error": there may be 1/N* with N from 2: each N-th call`,
		"drop=1/1*error":               `at character 6, "1/1*error": there may be 1/N* with N from 2: each N-th call`,
		"drop=delay":                   `at character 11, "": there must be a duration, as in delay(2s)`,
		"drop=delay(2)":                `at character 12, "2)": there must be a duration above 0, as 500ms, 2s or 1m`,
		"drop=delay(-2s)":              `at character 12, "-2s)": there must be a duration above 0, as 500ms, 2s or 1m`,
		"drop=delay(2s":                `at character 12, "2s": there must be a duration and ), as in delay(2s)`,
		"drop=off(2s)":                 `at character 9, "(2s)": off takes no duration`,
		"drop=error,drop=error":        `at character 11, ",drop=error": there may be ->, a semicolon or the end`,
		"drop=error;drop=error":        `at character 12, "drop=error": there may be another operation; this one is named twice: join its outcomes with ->`,
		"drop=error->off":              `at character 13, "off": there can be nothing more for drop: the outcome before has no number of calls, so it never ends`,
		"drop=1/2*error->off":          `at character 17, "off": there can be nothing more for drop: the outcome before has no number of calls, so it never ends`,
		"ж=error":                      `at character 1, "ж=error": there must be an operation: provision, drop, check-login, read-secret or apply-secret`,
		strings.Repeat(";", maxText+1): "it has 1025 bytes; at most 1024 may be",
	} {
		if s, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("Parse(%q) = %v,\n%v, want\n%s", text, s, err, want)
		}
	}
}

// TestNext plays scenarios through: one letter a call.
func TestNext(t *testing.T) {
	for text, want := range map[string]string{
		"drop=error":                             "eeeeeeee",
		"drop=1*error":                           "e.......",
		"drop=3*panic":                           "ppp.....",
		"drop=1/3*conflict":                      "..c..c..",
		"drop=2*off->1*error":                    "..e.....",
		"drop=1*error -> 2*conflict->off":        "ecc.....",
		"drop=2*off->1/2*error":                  "...e.e.e",
		"drop=2*delay(2s)->1*error(1m)":          "ddE.....",
		"provision=error; read-secret=1*error":   "........",
		"provision=error;\n drop = 1*error;\n\n": "e.......",
	} {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		s.maxDelay = 10 * time.Second
		letters := map[Fault]string{{}: ".", {Action: None}: ".", {Action: Before}: "e", {Action: Panic}: "p", {Action: Conflict}: "c",
			{Action: None, Delay: 2 * time.Second}: "d", {Action: Before, Delay: s.maxDelay}: "E"}
		var got strings.Builder
		for range len(want) {
			_ = s.next(OperationCheckLogin) // others aren't counted along
			got.WriteString(letters[s.next(OperationDrop)])
		}
		if got.String() != want {
			t.Errorf("%q plays %s, want %s", text, got.String(), want)
		}
	}
}

// FuzzParse: a text is refused with one line, or plays without trouble and never longer than the cap.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"provision=3*error; apply-secret=conflict", "drop=1/2*delay(2s)", "read-secret=2*off->1*panic(3ms)\n", "drop=1*", ";=->("} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if m := err.Error(); strings.ContainsAny(m, "\n\r") || len(m) > 400 {
				t.Errorf("Parse(%q): %q isn't one short line", text, m)
			}
			return
		}
		s.maxDelay = time.Second
		for _, operation := range operations {
			for range 20 {
				f := s.next(operation)
				if f.Delay < 0 || f.Delay > s.maxDelay || f.Action == After || f.Action == Kill {
					t.Errorf("%q: %+v", text, f)
				}
			}
		}
		if again, err := Parse(text + ";\n"); len(text)+2 <= maxText && (err != nil || len(again.terms) != len(s.terms)) {
			t.Errorf("%q with a last semicolon: %v", text, err)
		}
	})
}
