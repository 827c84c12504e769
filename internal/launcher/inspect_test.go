package launcher

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// put writes a file and the folders above it.
func put(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// program is the head of a program that names a loader, or none.
func program(t *testing.T, loader string) string {
	t.Helper()
	header := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	segment := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: uint64(len(loader) + 1)}
	if loader != "" {
		header.Phnum = 1
	}
	var out bytes.Buffer
	for _, part := range []any{header, segment, []byte(loader + "\x00")} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestGlibcVersion(t *testing.T) {
	const banner = "\x00GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.\nCopyright"
	for name, test := range map[string]struct {
		loader, library string // of the program; what libc.so.6 holds
		want, refused   string
	}{
		"Debian 12":                       {"ld-linux-x86-64.so.2", banner, "2.36", ""},
		"a newer one":                     {"ld-linux-x86-64.so.2", strings.ReplaceAll(banner, "2.36", "2.100"), "2.100", ""},
		"a development version":           {"ld-linux-x86-64.so.2", strings.ReplaceAll(banner, "stable", "development"), "2.36", ""},
		"too old":                         {"ld-linux-x86-64.so.2", strings.ReplaceAll(banner, "2.36", "2.31"), "", "glibc is 2.31; 2.36 or newer"},
		"musl is told by the loader":      {"ld-musl-x86_64.so.1", banner, "", "musl"},
		"another C library says nothing":  {"ld-linux-x86-64.so.2", "something else", "", "doesn't name its version"},
		"a static program has no library": {"", banner, "", "linked statically"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "lib", "libc.so.6"), test.library)
			loader := ""
			if test.loader != "" {
				put(t, filepath.Join(dir, "lib", test.loader), "")
				// As in Debian, where /lib64 holds a link.
				loader = filepath.Join(dir, test.loader)
				if err := os.Symlink(filepath.Join("lib", test.loader), loader); err != nil {
					t.Fatal(err)
				}
			}
			got, err := glibcVersion(put(t, filepath.Join(dir, "postgres"), program(t, loader)))
			checkRefused(t, err, UnsupportedImage, test.refused)
			if got != test.want {
				t.Errorf("glibcVersion() = %q, want %q", got, test.want)
			}
		})
	}
	if _, err := glibcVersion(put(t, filepath.Join(t.TempDir(), "postgres"), "#!/bin/sh")); err == nil {
		t.Error("a script has a C library")
	}
}

// checkRefused wants a refusal whose message holds a text, or no error where the text is empty.
func checkRefused(t *testing.T, err error, reason Reason, text string) {
	t.Helper()
	var refusal *Refusal
	switch {
	case text == "" && err != nil:
		t.Fatalf("unexpected error: %v", err)
	case text == "":
	case !errors.As(err, &refusal):
		t.Fatalf("error %v, want a refusal with %q", err, text)
	case refusal.Reason != reason || !strings.Contains(refusal.Message, text) || strings.Contains(refusal.Message, "\n"):
		t.Fatalf("refusal %v, want one line of %s with %q", refusal, reason, text)
	}
}

func TestFindBinDir(t *testing.T) {
	const debian15, debian16, elsewhere = "usr/lib/postgresql/15/bin", "usr/lib/postgresql/16/bin", "usr/local/bin"
	for name, test := range map[string]struct {
		dirs    []string
		env     map[string]string
		want    string
		refused string
	}{
		"Debian's only version":               {[]string{debian15}, nil, "/" + debian15, ""},
		"Debian's place wins over PATH":       {[]string{debian15, elsewhere}, map[string]string{"PATH": "/usr/local/bin"}, "/" + debian15, ""},
		"PG_MAJOR chooses":                    {[]string{debian15, debian16}, map[string]string{"PG_MAJOR": "16"}, "/" + debian16, ""},
		"a wrong PG_MAJOR is not believed":    {[]string{debian15}, map[string]string{"PG_MAJOR": "16"}, "/" + debian15, ""},
		"PATH chooses between several":        {[]string{debian15, debian16}, map[string]string{"PATH": "/bin:/" + debian16}, "/" + debian16, ""},
		"PATH, where Debian's place is empty": {[]string{elsewhere}, map[string]string{"PATH": "/bin:/usr/local/bin"}, "/" + elsewhere, ""},
		"several and no choice":               {[]string{debian15, debian16}, nil, "", "several versions"},
		"none":                                {nil, map[string]string{"PATH": "/bin"}, "", "no postgres program"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, dir := range test.dirs {
				put(t, filepath.Join(root, dir, "postgres"), "")
			}
			t.Setenv("PATH", "") // no pg_config of this machine
			got, err := findBinDir(t.Context(), root, func(name string) string { return test.env[name] })
			checkRefused(t, err, UnsupportedImage, test.refused)
			if got != test.want {
				t.Errorf("findBinDir() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-1.pgdg12+1)": "15.18",
		"postgres (PostgreSQL) 18.0":                            "18.0",
		"postgres (PostgreSQL) 19beta1":                         "19beta1",
		"postgres (PostgreSQL) 9.6.24":                          "9.6",
		"postgres (EnterpriseDB) 15.1":                          "",
		"":                                                      "",
	} {
		if got := parseVersion(text); got != want {
			t.Errorf("parseVersion(%q) = %q, want %q", text, got, want)
		}
	}
	for version, want := range map[string]int{"13.1": 0, "14.23": 14, "18.4": 18, "19beta1": 0, "9.6": 0} {
		got, err := supportedMajor(version)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("supportedMajor(%q) = %d, %v, want %d", version, got, err, want)
		}
	}
	for _, pair := range [][2]string{{"2.9", "2.36"}, {"2.36", "2.41"}, {"1.40", "2.36"}} {
		if !older(pair[0], pair[1]) || older(pair[1], pair[0]) || older(pair[0], pair[0]) {
			t.Errorf("older is wrong about %v", pair)
		}
	}
}

func TestUsers(t *testing.T) {
	passwd := put(t, filepath.Join(t.TempDir(), "passwd"), "root:x:0:0:root:/root:/bin/sh\nbroken\npostgres:x:999:998::/var/lib/postgresql:/bin/bash\n")
	if uid, gid := findUser(passwd, "postgres"); uid != 999 || gid != 998 {
		t.Errorf("postgres is %d:%d", uid, gid)
	}
	if got := userName(passwd, 999); got != "postgres" {
		t.Errorf("999 is %q", got)
	}
	if got := userName(passwd, 70); got != "" {
		t.Errorf("70 is %q", got)
	}
}

func TestParseReport(t *testing.T) {
	inspection := Inspection{Libc: "glibc 2.36", CollationVersion: "2.36", PostgresVersion: "15.18", Major: 15, BinDir: "/bin", UID: 999, GID: 999}
	refusal := Refusal{Reason: CollationMismatch, Message: "text \"quoted\""}
	log := put(t, filepath.Join(t.TempDir(), "log"), "")
	for name, test := range map[string]struct {
		report         any
		wantInspection *Inspection
		wantRefusal    *Refusal
	}{
		"an inspection": {inspection, &inspection, nil},
		"a refusal":     {refusal, nil, &refusal},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Report(log, test.report); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Count(content, []byte("\n")) != 1 {
				t.Errorf("the report is not one line: %q", content)
			}
			gotInspection, gotRefusal, err := ParseReport(string(content))
			if diff := cmp.Diff(test.wantInspection, gotInspection); diff != "" || err != nil {
				t.Errorf("inspection, error %v, -want +got:\n%s", err, diff)
			}
			if diff := cmp.Diff(test.wantRefusal, gotRefusal); diff != "" {
				t.Errorf("refusal, -want +got:\n%s", diff)
			}
		})
	}
	for _, message := range []string{"", "killed", "{}", `{"major":15}`} {
		if _, _, err := ParseReport(message); err == nil {
			t.Errorf("ParseReport(%q) gives no error", message)
		}
	}
}
