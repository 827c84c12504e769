package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer is a tar file as it is. The library's own file layers are compressed when they are written.
type layer struct {
	path string
	hash v1.Hash
	size int64
}

var _ v1.Layer = (*layer)(nil)

func openLayer(path, digest string) (*layer, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &layer{path: path, hash: v1.Hash{Algorithm: "sha256", Hex: digest}, size: stat.Size()}, nil
}

func (l *layer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

// entry is a file of a layer that is made here.
type entry struct {
	mode    int64
	content []byte
}

// pack writes files owned by root, without times, and with the folders they lie in: the same files give the same tar.
func pack(files map[string]entry) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	folders := map[string]bool{}
	for _, name := range sortedKeys(files) {
		for _, folder := range parents(name) {
			if folders[folder] {
				continue
			}
			folders[folder] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}); err != nil {
				return nil, err
			}
		}
		file := files[name]
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: file.mode, Size: int64(len(file.content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}

// parents are the folders above a/b/c, outermost first: a, a/b.
func parents(name string) []string {
	var all []string
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		all = append(all, strings.TrimSuffix(dir, "/"))
	}
	slices.Reverse(all)
	return all
}
