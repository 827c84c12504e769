// Package image writes container images of a single program, for the pause container and for tests.
//
// Invariants: the same program gives the same image; nothing is fetched from a registry.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Write writes an image that holds and runs a static program to a file, as `docker save` would.
func Write(file, reference, program string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	entrypoint := "/" + path.Base(program)
	content, err := archive(entrypoint, program)
	if err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{entrypoint}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return fmt.Errorf("make image %s: %w", reference, err)
	}
	return tarball.WriteToFile(file, tag, image)
}

// archive is a file system with the program and a folder for temporary files.
func archive(as, program string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range []*tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: as[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))},
	} {
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
