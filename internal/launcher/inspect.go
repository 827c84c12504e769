package launcher

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// programs of PostgreSQL that Patroni runs.
var programs = []string{"postgres", "initdb", "pg_ctl", "pg_controldata", "pg_basebackup", "pg_rewind", "pg_isready"}

// Inspect looks at the image that the program runs in. The error is a *Refusal where the image is what's wrong.
func Inspect(ctx context.Context) (*Inspection, error) {
	binDir, err := findBinDir(ctx, "/", os.Getenv)
	if err != nil {
		return nil, err
	}
	libc, err := glibcVersion(filepath.Join(binDir, "postgres"))
	if err != nil {
		return nil, err
	}
	for _, program := range programs {
		if _, err := exec.LookPath(filepath.Join(binDir, program)); err != nil {
			return nil, refuse(UnsupportedImage, "the image has no %s beside postgres in %s", program, binDir)
		}
	}
	version, err := postgresVersion(ctx, binDir)
	if err != nil {
		return nil, err
	}
	major, err := supportedMajor(version)
	if err != nil {
		return nil, err
	}
	uid, gid := findUser("/etc/passwd", "postgres")
	return &Inspection{
		Libc: "glibc " + libc, CollationVersion: libc, PostgresVersion: version, Major: major, BinDir: binDir, UID: uid, GID: gid,
	}, nil
}

// findBinDir is where PostgreSQL's server programs are: Debian's place for one major version each, else wherever PATH
// leads.
func findBinDir(ctx context.Context, root string, getenv func(string) string) (string, error) {
	if dir := fmt.Sprintf("/usr/lib/postgresql/%s/bin", getenv("PG_MAJOR")); getenv("PG_MAJOR") != "" && isFile(filepath.Join(root, dir, "postgres")) {
		return dir, nil
	}
	found, _ := filepath.Glob(filepath.Join(root, "usr/lib/postgresql/*/bin/postgres")) // the pattern is right
	if len(found) == 1 {
		dir, err := filepath.Rel(root, filepath.Dir(found[0]))
		return filepath.Join("/", dir), err
	}
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		program, err := filepath.EvalSymlinks(filepath.Join(root, dir, "postgres"))
		if filepath.IsAbs(dir) && err == nil && isFile(program) {
			dir, err = filepath.Rel(root, filepath.Dir(program))
			return filepath.Join("/", dir), err
		}
	}
	if len(found) > 1 {
		return "", refuse(UnsupportedImage, "the image has several versions of PostgreSQL, and neither PG_MAJOR nor PATH says which one is meant")
	}
	if dir, err := output(ctx, "pg_config", "--bindir"); err == nil && isFile(filepath.Join(dir, "postgres")) {
		return dir, nil
	}
	return "", refuse(UnsupportedImage, "the image has no postgres program in /usr/lib/postgresql or on PATH")
}

func isFile(name string) bool {
	stat, err := os.Stat(name)
	return err == nil && stat.Mode().IsRegular()
}

// glibcVersion is the version of the C library that a program runs with. It reads files and runs nothing: neither
// cgo nor a shell is at hand.
func glibcVersion(program string) (string, error) {
	loader, err := interpreter(program)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(filepath.Base(loader), "ld-musl-") {
		return "", refuse(UnsupportedImage, "the image's C library is musl, as in alpine: it can't run Patroni and sorts text differently; "+
			"take an image with glibc, as those of postgres without -alpine in their tag")
	}
	resolved, err := filepath.EvalSymlinks(loader)
	if err != nil {
		return "", refuse(UnsupportedImage, "%s wants the loader %s, which the image doesn't have", program, loader)
	}
	library := filepath.Join(filepath.Dir(resolved), "libc.so.6")
	content, err := os.ReadFile(library) //nolint:gosec // beside the image's own loader
	if err != nil {
		return "", refuse(UnsupportedImage, "the image has no glibc at %s", library)
	}
	version := bannerVersion(content)
	switch {
	case version == "":
		return "", refuse(UnsupportedImage, "%s isn't glibc: it doesn't name its version", library)
	case older(version, OldestGlibc):
		return "", refuse(UnsupportedImage, "the image's glibc is %s; %s or newer is needed, as in Debian 12 (bookworm)", version, OldestGlibc)
	}
	return version, nil
}

// interpreter is the loader that a program names.
func interpreter(program string) (string, error) {
	file, err := elf.Open(program)
	if err != nil {
		return "", refuse(UnsupportedImage, "%s is not a program for Linux", program)
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_INTERP || segment.Filesz > 4096 {
			continue
		}
		name := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(name, 0); err != nil {
			return "", fmt.Errorf("reading %s: %w", program, err)
		}
		return strings.TrimRight(string(name), "\x00"), nil
	}
	return "", refuse(UnsupportedImage, "%s is linked statically: its C library is unknown", program)
}

// banner is in every libc.so.6, which prints it when it is run:
// "GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36."
var banner = regexp.MustCompile(`GNU C Library [^\x00\n]* release version ([0-9]+\.[0-9]+)`)

func bannerVersion(library []byte) string {
	if match := banner.FindSubmatch(library); match != nil {
		return string(match[1])
	}
	return ""
}

// older compares versions of the form 2.36.
func older(a, b string) bool {
	aMajor, aMinor, _ := strings.Cut(a, ".")
	bMajor, bMinor, _ := strings.Cut(b, ".")
	if aMajor != bMajor {
		return number(aMajor) < number(bMajor)
	}
	return number(aMinor) < number(bMinor)
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // the patterns let only digits through
	return n
}

func postgresVersion(ctx context.Context, binDir string) (string, error) {
	text, err := output(ctx, filepath.Join(binDir, "postgres"), "--version")
	if errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	version := parseVersion(text)
	if err != nil || version == "" {
		return "", refuse(UnsupportedImage, "%s/postgres --version doesn't tell its version", binDir)
	}
	return version, nil
}

var versionPattern = regexp.MustCompile(`^postgres \(PostgreSQL\) ([0-9]+(\.[0-9]+|beta[0-9]+|rc[0-9]+|devel))`)

// parseVersion reads "postgres (PostgreSQL) 15.18 (Debian 15.18-1.pgdg12+1)".
func parseVersion(text string) string {
	if match := versionPattern.FindStringSubmatch(text); match != nil {
		return match[1]
	}
	return ""
}

var digits = regexp.MustCompile(`^[0-9]+`)

func supportedMajor(version string) (int, error) {
	major := number(digits.FindString(version))
	if major < OldestMajor || major > NewestMajor {
		return 0, refuse(UnsupportedImage, "the image holds PostgreSQL %s; supported are %d to %d", version, OldestMajor, NewestMajor)
	}
	return major, nil
}

// output runs a program of the image. It is called before Run reaps children.
func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output() //nolint:gosec // the image's own PostgreSQL
	if ctx.Err() != nil {
		err = fmt.Errorf("running %s: %w", name, ctx.Err())
	}
	return strings.TrimSpace(string(out)), err
}

// findUser looks a name up in a passwd file. 0, 0 means that it isn't there.
func findUser(passwd, name string) (uid, gid int) {
	for _, fields := range users(passwd) {
		if fields[0] == name {
			return number(fields[2]), number(fields[3])
		}
	}
	return 0, 0
}

// User is the image's name of the user that the pod runs as. Without one the image is refused: initdb needs it.
func User() (string, error) {
	user := userName("/etc/passwd", os.Getuid())
	if user == "" {
		return "", refuse(UnsupportedImage, "the image's /etc/passwd has no name for the user %d that the pod runs as: initdb needs one", os.Getuid())
	}
	return user, nil
}

// userName is the name of a user in a passwd file, or "".
func userName(passwd string, uid int) string {
	for _, fields := range users(passwd) {
		if fields[2] == strconv.Itoa(uid) {
			return fields[0]
		}
	}
	return ""
}

func users(passwd string) [][]string {
	content, err := os.ReadFile(passwd) //nolint:gosec // /etc/passwd but in tests
	if err != nil {
		return nil
	}
	var all [][]string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) == 7 {
			all = append(all, fields)
		}
	}
	return all
}
