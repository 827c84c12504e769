package build

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var gomod = Kubernetes.heading() + `
go 1.26.0

require (
	k8s.io/component-base v0.37.2
	k8s.io/kubernetes v1.37.2
)
`

func writeFile(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func fakeSource(t *testing.T) Source {
	t.Helper()
	folder := t.TempDir()
	writeFile(t, folder, "go.mod", gomod)
	writeFile(t, folder, "go.sum", "")
	writeFile(t, folder, "main.go", "package main")
	source, err := openSource(folder)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestOpenSource(t *testing.T) {
	for _, test := range []struct {
		sentence string
		gomod    string
		version  string
		complain string
	}{
		{"the version is that of k8s.io/kubernetes", gomod, "v1.37.2", ""},
		{"another module is refused", "module example.com/other\n", "", "another module's folder"},
		{"a module without Kubernetes is refused", Kubernetes.heading(), "", "does not require k8s.io/kubernetes"},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			folder := t.TempDir()
			writeFile(t, folder, "go.mod", test.gomod)
			source, err := openSource(folder)
			if source.Version != test.version {
				t.Errorf("version %q, want %q", source.Version, test.version)
			}
			if (err == nil) != (test.complain == "") || err != nil && !strings.Contains(err.Error(), test.complain) {
				t.Errorf("error %v, want %q", err, test.complain)
			}
		})
	}
}

func TestFindSource(t *testing.T) {
	source, err := FindSource()
	if err != nil || filepath.Base(source.Folder) != "kubernetes" {
		t.Errorf("in the checkout: %+v, %v", source, err)
	}
	t.Setenv(SourceVariable, t.TempDir())
	if _, err := FindSource(); err == nil || !strings.Contains(err.Error(), "$"+SourceVariable) {
		t.Errorf("a wrong variable gives %v, want an error that names it", err)
	}
	named := fakeSource(t)
	t.Setenv(SourceVariable, named.Folder)
	if source, err := FindSource(); err != nil || source != named {
		t.Errorf("the variable gives %+v, %v, want %+v", source, err, named)
	}
}

func TestEveryComponentSaysItsVersion(t *testing.T) {
	flags := Source{Version: "v1.37.2"}.linkerFlags()
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.37.2", "version.gitMajor=1 ", "version.gitMinor=37 ",
		"-X k8s.io/client-go/pkg/version.gitVersion=v1.37.2",
	} {
		if !strings.Contains(flags+" ", want) {
			t.Errorf("linker flags %q lack %q", flags, want)
		}
	}
}

func TestKey(t *testing.T) {
	source := fakeSource(t)
	key := func(toolchain string) string {
		t.Helper()
		key, err := source.key(toolchain)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := key("go1")
	writeFile(t, source.Folder, "main_test.go", "package main")
	if key("go1") != first {
		t.Error("a test file changes the key")
	}
	if key("go2") == first {
		t.Error("another toolchain has the same key")
	}
	for _, file := range []string{"main.go", "go.mod", "go.sum", "new.go"} {
		before := key("go1")
		writeFile(t, source.Folder, file, "changed")
		if key("go1") == before {
			t.Errorf("changing %s does not change the key", file)
		}
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	progress := &Progress{out: &out, last: Kubernetes.module(), started: time.Now()}
	for _, test := range []struct{ sentence, output, want string }{
		{"it begins with nothing", "", "0 packages compiled\n"},
		{"downloads are named", "go: downloading k8s.io/api v1.0.0\n", "0 packages compiled, downloading k8s.io/api v1.0.0\n"},
		{"half a line waits for its end", "k8s.io/a", "0 packages compiled, downloading k8s.io/api v1.0.0\n"},
		{"packages are counted", "pi/core\nk8s.io/api/apps\n", "2 packages compiled, compiling k8s.io/api/apps\n"},
		{"the program itself comes last", Kubernetes.module() + "\n", "2 packages compiled, linking\n"},
		{"complaints are no packages", "# k8s.io/api\nmain.go:1:2: wrong\n", "2 packages compiled, linking\n"},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			if _, err := progress.Write([]byte(test.output)); err != nil {
				t.Fatal(err)
			}
			out.Reset()
			progress.report()
			if !strings.HasSuffix(out.String(), " s, "+test.want) {
				t.Errorf("shows %q, want %q", out.String(), test.want)
			}
		})
	}
	if got := strings.Join(progress.complaints(), "|"); got != "# k8s.io/api|main.go:1:2: wrong" {
		t.Errorf("complaints: %q", got)
	}
}

func TestAssetsAreUsedForEtcdAndTheAPIServer(t *testing.T) {
	assets := t.TempDir()
	t.Setenv(AssetsVariable, assets)
	names := []string{"etcd", "kube-apiserver"}
	if _, err := Programs(t.Context(), names, os.Stderr); err == nil || !strings.Contains(err.Error(), "has no program etcd") {
		t.Errorf("empty assets give %v, want an error that names the program", err)
	}
	for _, name := range names {
		writeFile(t, assets, name, "#!/bin/sh\n")
		if err := os.Chmod(filepath.Join(assets, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	programs, err := Programs(t.Context(), names, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if programs[name] != filepath.Join(assets, name) {
			t.Errorf("%s is %q, want the one in the assets", name, programs[name])
		}
	}
}

func TestPruneRemovesWhatIsLongUnused(t *testing.T) {
	builds := t.TempDir()
	for name, age := range map[string]time.Duration{"old": unusedFor + time.Hour, "new": 0} {
		folder := filepath.Join(builds, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(folder, at, at); err != nil {
			t.Fatal(err)
		}
	}
	prune(builds)
	left, err := os.ReadDir(builds)
	if err != nil || len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("left: %v, %v; want only the new one", left, err)
	}
}
