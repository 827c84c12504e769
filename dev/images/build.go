package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// builder makes layers and archives.
type builder struct {
	cache  *cache
	module string // our module's folder
}

func newBuilder(ctx context.Context, c *cache) (*builder, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/example/databases").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for our module: run this from its folder: %w", err)
	}
	return &builder{cache: c, module: strings.TrimSpace(string(out))}, nil
}

// archive is the path of an archive, which it makes where it isn't in the cache.
func (b *builder) archive(ctx context.Context, a archive) (path string, made bool, err error) {
	parts := []string{runtime.GOARCH}
	var layers []v1.Layer
	for _, source := range a.layers {
		l, err := source(ctx, b)
		if err != nil {
			return "", false, err
		}
		layers = append(layers, l)
		parts = append(parts, l.hash.Hex)
	}
	configs, err := json.Marshal(a.images)
	if err != nil {
		return "", false, err
	}
	return b.cache.file(a.name, hash(append(parts, string(configs))...), ".tar", func(path string) error {
		return write(path, a, layers)
	})
}

func write(path string, a archive, layers []v1.Layer) error {
	images := map[name.Reference]v1.Image{}
	for _, tag := range a.tags() {
		ref, err := name.NewTag(tag)
		if err != nil {
			return err
		}
		image, err := mutate.AppendLayers(empty.Image, layers...)
		if err != nil {
			return err
		}
		file, err := image.ConfigFile()
		if err != nil {
			return err
		}
		file = file.DeepCopy()
		file.Architecture, file.OS, file.Config = runtime.GOARCH, "linux", a.images[tag]
		if images[ref], err = mutate.ConfigFile(image, file); err != nil {
			return err
		}
	}
	return tarball.MultiRefWriteToFile(path, images)
}

// cachedLayer is a layer whose tar is made where it isn't in the cache. Its digest is computed each time: one that is
// kept apart could be another build's, and archives are made seldom.
func (b *builder) cachedLayer(kind, key string, build func(path string) error) (*layer, error) {
	path, _, err := b.cache.file(kind, key, ".layer", build)
	if err != nil {
		return nil, err
	}
	digest, err := hashFile(path)
	if err != nil {
		return nil, err
	}
	return openLayer(path, digest)
}

// files is a layer of files given here.
func files(kind string, content func(*builder) (map[string]entry, error)) source {
	return func(_ context.Context, b *builder) (*layer, error) {
		all, err := content(b)
		if err != nil {
			return nil, err
		}
		packed, err := pack(all)
		if err != nil {
			return nil, err
		}
		return b.cachedLayer(kind, hash(string(packed)), func(path string) error { return os.WriteFile(path, packed, 0o644) })
	}
}

// program is a layer with a program of that package at its root.
func program(command, pkg string) source {
	return func(ctx context.Context, b *builder) (*layer, error) {
		dir, err := os.MkdirTemp("", "databases-images-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir) // a temporary folder
		binary := filepath.Join(dir, command)
		build := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, pkg)
		build.Dir, build.Stderr = b.module, os.Stderr
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("go build %s: %w", pkg, err)
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return nil, err
		}
		return files("program-"+command, func(*builder) (map[string]entry, error) {
			return map[string]entry{command: {0o755, content}}, nil
		})(ctx, b)
	}
}

// base is what distroless/static has: names for the user, and certificates where this machine has them.
func base(*builder) (map[string]entry, error) {
	all := map[string]entry{
		"etc/passwd": {0o644, []byte("root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		"etc/group":  {0o644, []byte("root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n")},
	}
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	content, err := os.ReadFile(bundle)
	switch {
	case err == nil:
		all[bundle[1:]] = entry{0o644, content}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return all, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
