package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestStockKey(t *testing.T) {
	folder, at := t.TempDir(), time.Now()
	archive := func(name, content string, age time.Duration) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at.Add(-age)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	key := func(files ...string) string {
		archives, err := inspect(files)
		if err != nil {
			t.Fatal(err)
		}
		return stockKey(archives)
	}
	old, young := archive("old", "x", time.Hour), archive("young", "x", 0)
	first := key(old, young)
	if key(young, old) != first {
		t.Error("the order in which images are given matters")
	}
	if key(old) == first || key(young) == first {
		t.Error("an image does not matter")
	}
	if archives, err := inspect([]string{young, old}); err != nil || archives[0].file != old {
		t.Errorf("the oldest, which changes least, is not the first: %v, %v", archives, err)
	}
	if archive("young", "xx", 0); key(old, young) == first {
		t.Error("an image's size does not matter")
	}
	if archive("young", "x", time.Second); key(old, young) == first {
		t.Error("an image's age does not matter")
	}
}

func TestSplit(t *testing.T) {
	folder := t.TempDir()
	small, big := filepath.Join(folder, "small"), filepath.Join(folder, "big")
	for file, size := range map[string]int64{small: bigImage - 1, big: bigImage} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Fatal(err)
		}
	}
	gotBig, gotSmall := split([]string{small, big, "/does/not/exist"})
	if len(gotBig) != 1 || gotBig[0] != big || len(gotSmall) != 2 {
		t.Errorf("big are %q, small %q", gotBig, gotSmall)
	}
}

func TestPruneKeepsWhatIsUsed(t *testing.T) {
	now := time.Now()
	s := stock{folder: t.TempDir()}
	ages := map[string]time.Duration{"now": 0, "long unused": unusedFor + time.Hour}
	for i := range mostStocks {
		ages[fmt.Sprintf("recent-%02d", i)] = time.Duration(i+1) * time.Minute
	}
	for name, age := range ages {
		folder := filepath.Join(s.folder, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(folder, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	s.prune(now)
	for name, want := range map[string]bool{
		"now": true, "long unused": false, "recent-00": true,
		fmt.Sprintf("recent-%02d", mostStocks-2): true,
		fmt.Sprintf("recent-%02d", mostStocks-1): false, // one more than are kept
	} {
		if _, err := os.Stat(filepath.Join(s.folder, name)); (err == nil) != want {
			t.Errorf("%q is kept: %t, want %t", name, err == nil, want)
		}
	}
}

func TestLinkSharesAllButDatabases(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	const layer = "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/file"
	for _, name := range append([]string{layer}, databases...) {
		file := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := link(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{layer}, databases...) {
		content, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || string(content) != name {
			t.Errorf("%s holds %q, %v", name, content, err)
		}
		original, _ := os.Stat(filepath.Join(from, name))
		copied, _ := os.Stat(filepath.Join(to, name))
		if got, want := os.SameFile(original, copied), name == layer; got != want {
			t.Errorf("%s is shared: %t, want %t", name, got, want)
		}
	}
}
