package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed postgres.sh
var postgresScript string

//go:embed bundle.pref
var bundlePreferences string

// trim keeps dpkg from unpacking what would be removed afterwards.
var trim = []string{
	"--variant=minbase", `--aptopt=Apt::Install-Recommends "false"`, "--dpkgopt=force-unsafe-io", "--quiet",
	"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/info/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*/LC_MESSAGES/*",
}

// postgresRoot is Debian with PostgreSQL, as the official images have it. The first suite is the system's; others
// only have packages that it lacks, or older ones.
func postgresRoot(major string, suites ...string) source {
	return func(ctx context.Context, b *builder) (*layer, error) {
		args := append(append([]string{}, trim...),
			"--include=postgresql-"+major+",locales,ca-certificates,tzdata",
			"--essential-hook=upload script.sh /script.sh",
			`--essential-hook=chroot "$1" sh /script.sh essential `+major,
			`--customize-hook=chroot "$1" sh /script.sh customize `+major)
		return b.debian(ctx, fmt.Sprintf("postgres-%s-%s", major, suites[0]), postgresScript, args, suites, "")
	}
}

// bundle is Python and Patroni, made by the script that the Dockerfile uses too.
func bundle(ctx context.Context, b *builder) (*layer, error) {
	script, err := os.ReadFile(filepath.Join(b.module, "images", "databases-patroni", "bundle.sh"))
	if err != nil {
		return nil, err
	}
	args := append(append([]string{}, trim...),
		// Trixie's Patroni doesn't depend on the architecture or on trixie's Python.
		"--setup-hook=mkdir -p \"$1/etc/apt/preferences.d\"; cat >\"$1/etc/apt/preferences.d/bundle\" <<'EOF'\n"+bundlePreferences+"EOF",
		"--include=patroni,python3-psycopg2,patchelf",
		"--customize-hook=upload script.sh /script.sh",
		`--customize-hook=chroot "$1" sh /script.sh /bundle/opt/databases-patroni`)
	return b.debian(ctx, "bundle", string(script), args, []string{"bookworm", "trixie"}, "/bundle/opt") // tar-out keeps the last name
}

// debian runs mmdebstrap, whose hooks find the script as script.sh, and keeps the whole root, or one folder of it.
func (b *builder) debian(ctx context.Context, kind, script string, args, suites []string, only string) (*layer, error) {
	key := hash(append(append([]string{script, only}, args...), suites...)...)
	return b.cachedLayer(kind, key, func(path string) error {
		if err := missing(os.Geteuid()); err != nil {
			return err
		}
		mirror, err := mirror(ctx)
		if err != nil {
			return err
		}
		say("running mmdebstrap for %s: a minute or two, once", kind)
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "script.sh"), []byte(script), 0o644); err != nil {
			return err
		}
		args := append([]string{}, args...)
		if only == "" {
			args = append(args, "--format=tar", suites[0], path)
		} else {
			args = append(args, "--customize-hook=tar-out "+only+" "+filepath.Base(path), "--format=null", suites[0], "/dev/null")
		}
		for _, suite := range suites {
			args = append(args, "deb "+mirror+" "+suite+" main")
		}
		if err := runLogged(ctx, filepath.Dir(path), "mmdebstrap", args...); err != nil {
			return fmt.Errorf("making a root of Debian %s: %w", suites[0], err)
		}
		return nil
	})
}

// mirror is the Debian mirror that this machine itself installs from, or the one that DEBIAN_MIRROR names.
func mirror(ctx context.Context) (string, error) {
	if named := os.Getenv("DEBIAN_MIRROR"); named != "" {
		return named, nil
	}
	output, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages", "Origin: Debian").Output()
	if err != nil {
		return "", fmt.Errorf("asking apt-get for a Debian mirror (DEBIAN_MIRROR may name one): %w", err)
	}
	if found := mirrorOf(string(output)); found != "" {
		return found, nil
	}
	return "", errors.New("apt's sources have no Debian mirror: set DEBIAN_MIRROR to the URL of one")
}

// mirrorOf picks the mirror of a whole release out of lines of URL and name; those of updates have a name with "-".
func mirrorOf(targets string) string {
	for line := range strings.Lines(targets) {
		url, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && name != "" && !strings.Contains(name, "-") {
			return strings.TrimSuffix(url, "/")
		}
	}
	return ""
}

// missing says what is to be installed.
func missing(uid int) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return errors.New("mmdebstrap is missing: apt-get install mmdebstrap")
	}
	if _, err := exec.LookPath("newuidmap"); err != nil && uid != 0 {
		return errors.New("newuidmap is missing, which mmdebstrap needs without root: apt-get install uidmap")
	}
	return nil
}

// runLogged runs a command in a folder, and shows the end of what it said only when it fails.
func runLogged(ctx context.Context, dir, command string, args ...string) error {
	log := filepath.Join(dir, "log")
	file, err := os.Create(log)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, file, file
	// mmdebstrap removes its root when it is interrupted; killed it couldn't.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log) // without it there is still the error
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("%s: %w:\n%s", command, err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return nil
}
