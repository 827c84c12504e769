// Package reload reads files that are replaced while the program runs: mounted Secrets and ConfigMaps.
//
// It looks at the file's identity when the content is asked for and needs no watch, which would have to follow the
// symbolic links that the kubelet swaps.
//
// Invariants:
//   - Content never blocks on more than the file system, and looks at the file once a second at most.
//   - An error never quotes the content.
package reload

import (
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// Interval is how often at most a file is looked at.
	Interval = time.Second
	// maxBytes is more than any of our files needs.
	maxBytes = 1 << 20
)

// File is a file that is read again when it changes.
type File struct {
	name string

	mu      sync.Mutex
	checked time.Time
	stat    os.FileInfo
	content []byte
	err     error
}

// NewFile makes one. It doesn't read the file.
func NewFile(name string) *File { return &File{name: name} }

// Content is the file's content as of the last second. With an error it is what was read last.
func (f *File) Content() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < Interval {
		return f.content, f.err
	}
	f.checked = time.Now()
	stat, err := os.Stat(f.name)
	if err == nil && f.err == nil && f.unchanged(stat) {
		return f.content, nil
	}
	f.stat, f.err = stat, err
	if err != nil {
		return f.content, err
	}
	if stat.Size() > maxBytes {
		f.err = fmt.Errorf("%s has more than %d bytes", f.name, maxBytes)
		return f.content, f.err
	}
	content, err := os.ReadFile(f.name)
	if f.err = err; err == nil {
		f.content = content
	}
	return f.content, f.err
}

func (f *File) unchanged(stat os.FileInfo) bool {
	return f.stat != nil && os.SameFile(stat, f.stat) && stat.ModTime().Equal(f.stat.ModTime()) && stat.Size() == f.stat.Size()
}
