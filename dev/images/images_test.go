package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestChoose(t *testing.T) {
	names := func(all []archive) (names []string) {
		for _, a := range all {
			names = append(names, a.name)
		}
		return names
	}
	for only, want := range map[string][]string{
		"":                                     names(archives),
		"postgres:15":                          {"postgres-15"},
		"postgres-15":                          {"postgres-15"},
		"postgres:15-layout18,postgres:15":     {"postgres-15"},
		"postgres:17,databases-patroni:dev":    {"postgres-17", "databases-patroni"},
		"databases:dev,databases,postgres:17,": nil,
		"postgres:16":                          nil,
	} {
		got, err := choose(archives, only)
		if diff := cmp.Diff(want, names(got)); diff != "" || (err != nil) != (want == nil) {
			t.Errorf("choose(%q): error %v, -want +got:\n%s", only, err, diff)
		}
	}
}

// TestTagsAreUnique: a tag in two archives would depend on which is imported last.
func TestTagsAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, a := range archives {
		for _, tag := range a.tags() {
			if seen[tag] != "" {
				t.Errorf("%s is in %s and in %s", tag, seen[tag], a.name)
			}
			seen[tag] = a.name
			if _, err := name.NewTag(tag); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestPackIsDeterministicAndHasFolders(t *testing.T) {
	files := map[string]entry{"a/b/c": {0o755, []byte("1")}, "a/d": {0o600, nil}, "e": {0o644, []byte("2")}}
	first, err := pack(files)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pack(files)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same files give another tar: %v", err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(first)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, header.Name)
	}
	if diff := cmp.Diff([]string{"a/", "a/b/", "a/b/c", "a/d", "e"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// testArchive needs neither packages nor a compiler.
func testArchive(content string) archive {
	return archive{
		name: "test",
		layers: []source{files("test", func(*builder) (map[string]entry, error) {
			return map[string]entry{"file": {0o644, []byte(content)}}, nil
		})},
		images: map[string]v1.Config{"test:a": official("15", layoutData), "test:b": official("15", layout18)},
	}
}

func openTest(t *testing.T) *builder {
	t.Helper()
	c, err := openCache(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return &builder{cache: c}
}

func TestArchive(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	b := openTest(t)
	path, made, err := b.archive(t.Context(), testArchive("one"))
	if err != nil || !made {
		t.Fatalf("made %v, error %v", made, err)
	}
	again, made, err := b.archive(t.Context(), testArchive("one"))
	if err != nil || made || again != path {
		t.Errorf("a second time: %s, made %v, error %v", again, made, err)
	}
	if other, made, err := b.archive(t.Context(), testArchive("two")); err != nil || !made || other == path {
		t.Errorf("another content: %s, made %v, error %v", other, made, err)
	}
	for tag, pgdata := range map[string]string{"test:a": "PGDATA=/var/lib/postgresql/data", "test:b": "PGDATA=/var/lib/postgresql/15/docker"} {
		ref, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(path, &ref)
		if err != nil {
			t.Fatal(err)
		}
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if file.OS != "linux" || file.Config.StopSignal != "SIGINT" || !strings.Contains(strings.Join(file.Config.Env, " "), pgdata) {
			t.Errorf("%s: %+v", tag, file)
		}
		if layers, err := image.Layers(); err != nil || len(layers) != 1 {
			t.Errorf("%s: %d layers, error %v", tag, len(layers), err)
		}
	}
}

func TestExport(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	out := filepath.Join(t.TempDir(), "out")
	path, _, err := openTest(t).archive(t.Context(), testArchive("one"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := export(path, out, "test"); err != nil || got != filepath.Join(out, "test.tar") {
			t.Errorf("%s, error %v", got, err)
		}
	}
	if found, err := os.ReadDir(out); err != nil || len(found) != 1 {
		t.Errorf("the folder holds %v, error %v", found, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the cache's own file is gone")
	}
}

func TestCacheKeepsNothingUnfinished(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	b := openTest(t)
	fault := errors.New("fault")
	_, _, err := b.cache.file("kind", hash("key"), ".tar", func(path string) error {
		return errors.Join(os.WriteFile(path, []byte("half"), 0o644), fault)
	})
	if !errors.Is(err, fault) {
		t.Errorf("error %v", err)
	}
	if err := os.MkdirAll(filepath.Join(b.cache.dir, ".new-killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.cache.close()
	b = openTest(t)
	found, err := os.ReadDir(b.cache.dir)
	if err != nil || len(found) != 1 || found[0].Name() != "lock" {
		t.Errorf("the cache holds %v, error %v", found, err)
	}
}

func TestTwoAtOnceTakeTurns(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	var holders, builds atomic.Int32
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			c, err := openCache(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.close()
			if holders.Add(1) > 1 {
				t.Error("two hold the cache")
			}
			defer holders.Add(-1)
			if _, _, err := c.file("kind", hash("key"), ".tar", func(path string) error {
				builds.Add(1)
				return os.WriteFile(path, nil, 0o644)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if builds.Load() != 1 {
		t.Errorf("built %d times", builds.Load())
	}
	held, err := openCache(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openCache(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting isn't given up: %v", err)
	}
}

func TestHashTellsListsApart(t *testing.T) {
	if hash("a", "bc") == hash("ab", "c") || hash() == hash("") {
		t.Error("different lists have the same hash")
	}
	if _, err := json.Marshal(archives[0].images); err != nil {
		t.Error(err)
	}
}

// TestNoShell: the program's image holds the program and nothing that could run another one.
func TestNoShell(t *testing.T) {
	wanted := slices.IndexFunc(archives, func(a archive) bool { return a.name == "databases" })
	b, err := newBuilder(t.Context(), openTest(t).cache)
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, source := range archives[wanted].layers {
		l, err := source(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		for r := tar.NewReader(content); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Typeflag != tar.TypeDir && (header.Typeflag != tar.TypeReg || header.Mode&0o111 != 0) {
				programs = append(programs, header.Name)
			}
		}
	}
	if diff := cmp.Diff([]string{"databases"}, programs); diff != "" {
		t.Errorf("what can be run in the image: -want +got:\n%s", diff)
	}
}

// TestDockerfilesEndWithoutShell: the last stage of ours is distroless, for which everything runs as the user that has no rights.
func TestDockerfilesEndWithoutShell(t *testing.T) {
	for _, program := range []string{"databases", "databases-patroni"} {
		content, err := os.ReadFile("../../images/" + program + "/Dockerfile")
		if err != nil {
			t.Fatal(err)
		}
		stages := regexp.MustCompile(`(?m)^FROM `).Split(string(content), -1)
		last := stages[len(stages)-1]
		if !strings.HasPrefix(last, "gcr.io/distroless/static-debian12:nonroot\n") || strings.Contains(last, "\nRUN ") ||
			!strings.Contains(last, "\nUSER 65532:65532\n") || !strings.Contains(last, "\nENTRYPOINT [\"/"+program+"\"]") {
			t.Errorf("the last stage of %s is\n%s", program, last)
		}
	}
}

// TestDockerfileSetsVersion builds the program with the flags in its Dockerfile: a variable that the linker doesn't find is no error
// to it.
func TestDockerfileSetsVersion(t *testing.T) {
	content, err := os.ReadFile("../../images/databases/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`(?m)^ARG VERSION=\n(?:.*\n)*?RUN .*-ldflags "([^"]*)"`).FindSubmatch(content)
	if flags == nil {
		t.Fatal("no build with ARG VERSION above it")
	}
	program := filepath.Join(t.TempDir(), "databases")
	linked := strings.ReplaceAll(string(flags[1]), "$VERSION", "1.2.3")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", linked, "-o", program, "../../cmd/databases").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if output, err := exec.CommandContext(t.Context(), program, "--version").Output(); err != nil || string(output) != "databases 1.2.3\n" {
		t.Errorf("%q, %v", output, err)
	}
}

func TestMirrorOf(t *testing.T) {
	for targets, want := range map[string]string{
		"": "",
		"http://m/debian-security/ bookworm-security\nhttp://m/debian/ bookworm\nhttp://m/debian/ bookworm-updates\n": "http://m/debian",
		"http://m/debian/ bookworm-updates\n": "",
	} {
		if got := mirrorOf(targets); got != want {
			t.Errorf("%q: %q, want %q", targets, got, want)
		}
	}
}
