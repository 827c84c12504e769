package postgrestest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// binaries is a PostgreSQL on disk.
type binaries struct {
	bin   string // folder of its programs
	lib   string // folder of its libraries, if the linker doesn't find them by itself
	major int
	minor int
}

// program returns the path of one of its programs.
func (b binaries) program(name string) string { return filepath.Join(b.bin, name) }

// Installed returns the folder of the programs of the newest PostgreSQL server
// installed on this machine, and its major version.
func Installed() (bin string, major int, err error) {
	found, err := findInstalled(context.Background(), 0)
	return found.bin, found.major, err
}

// findBinaries returns the PostgreSQL that o asks for and fetches it first if
// need be.
func findBinaries(ctx context.Context, o Options, account *syscall.Credential) (binaries, error) {
	if o.Installed {
		return findInstalled(ctx, o.Major)
	}
	if !slices.Contains(Versions, o.Major) {
		return binaries{}, fmt.Errorf("no PostgreSQL %d here, only %v", o.Major, Versions)
	}
	return fetched(ctx, o.Major, account)
}

// findInstalled returns the newest installed server of a major version, of any
// if major is 0.
func findInstalled(ctx context.Context, major int) (binaries, error) {
	var found []binaries
	for _, dir := range installedDirs(ctx) {
		b := binaries{bin: dir}
		var err error
		if b.major, b.minor, err = versionOf(ctx, b.program("postgres")); err != nil {
			continue // clients alone, or nothing that runs
		}
		if _, err := os.Stat(b.program("initdb")); err == nil && (major == 0 || b.major == major) {
			found = append(found, b)
		}
	}
	if len(found) == 0 && major != 0 {
		return binaries{}, fmt.Errorf("no PostgreSQL %d server is installed", major)
	}
	if len(found) == 0 {
		return binaries{}, errors.New("no PostgreSQL server is installed: run dev/setup demo")
	}
	return slices.MaxFunc(found, func(a, b binaries) int {
		return cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor))
	}), nil
}

// installedDirs returns the folders where an installed server may be.
func installedDirs(ctx context.Context) []string {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"} {
		matches, _ := filepath.Glob(pattern) // fails for a malformed pattern only
		dirs = append(dirs, matches...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

// printedVersion matches what postgres --version prints, of a beta too.
var printedVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// versionOf asks a postgres program for its version.
func versionOf(ctx context.Context, program string) (major, minor int, err error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return 0, 0, err
	}
	match := printedVersion.FindSubmatch(out)
	if match == nil {
		return 0, 0, fmt.Errorf("no version in %q", out)
	}
	if major, err = strconv.Atoi(string(match[1])); err != nil {
		return 0, 0, err
	}
	minor, _ = strconv.Atoi(string(match[2])) // a beta has none
	return major, minor, nil
}
