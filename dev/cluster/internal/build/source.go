package build

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// SourceVariable is the environment variable that names the folder of the Kubernetes module.
const SourceVariable = "DATABASES_CLUSTER_SOURCE"

// Source is a module in a folder of this machine.
type Source struct {
	Target  *Target
	Folder  string
	Version string // of Kubernetes, such as v1.2.3; of anything else nothing
}

// title names what is built for people.
func (s Source) title() string {
	if s.Version == "" {
		return s.Target.title
	}
	return s.Target.title + " " + s.Version
}

// findSource finds a target's module: beside that of Kubernetes.
func findSource(target *Target) (Source, error) {
	source, err := FindSource()
	if err != nil || target == Kubernetes {
		return source, err
	}
	return openTarget(target, filepath.Join(filepath.Dir(source.Folder), target.name))
}

// FindSource finds the module of Kubernetes: where SourceVariable says, else in or above the working directory, else where this
// program was compiled.
func FindSource() (Source, error) {
	if folder := os.Getenv(SourceVariable); folder != "" {
		source, err := openSource(folder)
		if err != nil {
			return Source{}, fmt.Errorf("$%s must name the folder dev/cluster/kubernetes: %w", SourceVariable, err)
		}
		return source, nil
	}
	var candidates []string
	if at, err := os.Getwd(); err == nil {
		for ; ; at = filepath.Dir(at) {
			candidates = append(candidates, at, filepath.Join(at, "kubernetes"), filepath.Join(at, "dev", "cluster", "kubernetes"))
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		candidates = append(candidates, filepath.Join(filepath.Dir(file), "..", "..", "kubernetes"))
	}
	for _, folder := range candidates {
		if source, err := openSource(folder); err == nil {
			return source, nil
		}
	}
	return Source{}, fmt.Errorf("the folder dev/cluster/kubernetes was not found: run this inside the checkout or set $%s to it", SourceVariable)
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$`)

func openSource(folder string) (Source, error) {
	return openTarget(Kubernetes, folder)
}

func openTarget(target *Target, folder string) (Source, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return Source{}, err
	}
	gomod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return Source{}, err
	}
	if !strings.HasPrefix(string(gomod), target.heading()) {
		return Source{}, fmt.Errorf("%s is another module's folder", folder)
	}
	source := Source{Target: target, Folder: folder}
	if target != Kubernetes {
		return source, nil
	}
	version := kubernetesVersion.FindSubmatch(gomod)
	if version == nil {
		return Source{}, errors.New("its go.mod does not require k8s.io/kubernetes")
	}
	source.Version = string(version[1])
	return source, nil
}

// linkerFlags make every component call itself the version it is: without them it is v0.0.0-master.
func (s Source) linkerFlags() string {
	if s.Version == "" {
		return "-s -w"
	}
	parts := strings.SplitN(strings.TrimPrefix(s.Version, "v"), ".", 3)
	flags := []string{"-s", "-w"}
	for _, in := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", in+".gitVersion="+s.Version,
			"-X", in+".gitMajor="+parts[0],
			"-X", in+".gitMinor="+parts[1])
	}
	return strings.Join(flags, " ")
}

// key is the digest of all that decides what the program will be. The toolchain is part of that.
func (s Source) key(toolchain string) (string, error) {
	var files []string
	for _, pattern := range []string{"*.go", "*/*.go", "*/*/*.go"} {
		found, err := filepath.Glob(filepath.Join(s.Folder, pattern))
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
	files = append(files, filepath.Join(s.Folder, "go.mod"), filepath.Join(s.Folder, "go.sum"))
	digest := sha256.New()
	for _, text := range []string{toolchain, s.linkerFlags(), strings.Join(buildFlags, " ")} {
		fmt.Fprintf(digest, "%q\n", text)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the sources of %s: %w", s.title(), err)
		}
		fmt.Fprintf(digest, "%q %q\n", strings.TrimPrefix(file, s.Folder+string(os.PathSeparator)), content)
	}
	return hex.EncodeToString(digest.Sum(nil))[:16], nil
}
