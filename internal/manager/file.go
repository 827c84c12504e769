package manager

import (
	"bytes"
	"os"
	"sync"
	"time"
)

// file is a file that is read again when it changes, looked at once a second at most.
type file struct {
	name string

	mu      sync.Mutex
	checked time.Time
	stat    os.FileInfo
	data    []byte
	err     error
}

func (f *file) content() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < time.Second {
		return f.data, f.err
	}
	f.checked = time.Now()
	stat, err := os.Stat(f.name)
	if err == nil && f.err == nil && f.stat != nil && stat.ModTime().Equal(f.stat.ModTime()) && os.SameFile(stat, f.stat) {
		return f.data, nil
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(f.name)
	}
	if err == nil {
		f.data = bytes.TrimSpace(data)
		f.data = append(f.data, '\n')
	}
	f.stat, f.err = stat, err
	return f.data, f.err
}
