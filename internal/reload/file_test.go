package reload

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSwappedLink replaces a file as the kubelet does: by swapping the link to its folder.
func TestSwappedLink(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"one", "two"} {
		if err := os.MkdirAll(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "file"), []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "data")
	if err := os.Symlink("one", link); err != nil {
		t.Fatal(err)
	}
	f := NewFile(filepath.Join(link, "file"))
	want := func(content string, fails bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			got, err := f.Content()
			if string(got) == content && (err != nil) == fails {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("content %q, error %v; want %q, an error: %v", got, err, content, fails)
			}
		}
	}
	want("one", false)
	if err := os.Symlink("two", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	want("two", false)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	want("two", true)
	if err := os.Symlink("one", link); err != nil {
		t.Fatal(err)
	}
	want("one", false)
}
