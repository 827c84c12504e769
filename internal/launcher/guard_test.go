package launcher

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGuard(t *testing.T) {
	image := &Inspection{Major: 15, PostgresVersion: "15.18", CollationVersion: "2.41"}
	same, other := &Record{CollationVersion: "2.41"}, &Record{CollationVersion: "2.36"}
	for name, test := range map[string]struct {
		data    Data
		accept  string
		write   bool
		reason  Reason
		refused string
	}{
		"no data, no record":                    {Data{}, "", true, "", ""},
		"no data, but an old record":            {Data{Record: other}, "", true, "", ""},
		"data without a record":                 {Data{Major: "15"}, "", true, "", ""},
		"data of the same version":              {Data{Major: "15", Record: same}, "", false, "", ""},
		"another major version":                 {Data{Major: "14", Record: same}, "", false, MajorUpgradeRequired, "made by PostgreSQL 14 and the image holds 15.18"},
		"a major version of another form":       {Data{Major: "9.6"}, "", false, MajorUpgradeRequired, "9.6"},
		"another collation version":             {Data{Major: "15", Record: other}, "", false, CollationMismatch, "2.36 and the image has glibc 2.41"},
		"the accepted one":                      {Data{Major: "15", Record: other}, "2.41", true, "", ""},
		"accepted was another than the image's": {Data{Major: "15", Record: other}, "2.36", false, CollationMismatch, "2.41"},
		"both differ: the major version counts": {Data{Major: "16", Record: other}, "2.41", false, MajorUpgradeRequired, "16"},
	} {
		t.Run(name, func(t *testing.T) {
			write, err := Guard(image, test.data, test.accept)
			checkRefused(t, err, test.reason, test.refused)
			if write != test.write {
				t.Errorf("write = %v, want %v", write, test.write)
			}
		})
	}
}

func TestData(t *testing.T) {
	volume := t.TempDir()
	pgdata := filepath.Join(volume, "15", "docker")
	want := func(data Data) {
		t.Helper()
		got, err := readData(pgdata, volume)
		if diff := cmp.Diff(data, got); diff != "" || err != nil {
			t.Fatalf("error %v, -want +got:\n%s", err, diff)
		}
	}
	want(Data{})
	if err := prepare(pgdata); err != nil {
		t.Fatal(err)
	}
	if stat, err := os.Stat(filepath.Dir(pgdata)); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("the folder above PGDATA: %v, %v", stat, err)
	}
	if _, err := os.Stat(pgdata); err == nil {
		t.Error("PGDATA itself is initdb's to make")
	}
	put(t, filepath.Join(pgdata, "PG_VERSION"), "15\n")
	want(Data{Major: "15"})
	for _, version := range []string{"2.36", "2.41"} {
		if err := writeRecord(volume, Record{CollationVersion: version}); err != nil {
			t.Fatal(err)
		}
		want(Data{Major: "15", Record: &Record{CollationVersion: version}})
	}
	for _, content := range []string{"", "{}", "{"} {
		put(t, filepath.Join(volume, RecordFile), content)
		if _, err := readData(pgdata, volume); err == nil {
			t.Errorf("the record %q is taken for one", content)
		}
	}
}

func TestPrepareTakesOnlyWhatPostgresRefuses(t *testing.T) {
	for before, want := range map[os.FileMode]os.FileMode{0o700: 0o700, 0o750: 0o750, 0o770: 0o700, 0o777: 0o700} {
		pgdata := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(pgdata, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(pgdata, before); err != nil {
			t.Fatal(err)
		}
		if err := prepare(pgdata); err != nil {
			t.Fatal(err)
		}
		stat, err := os.Stat(pgdata)
		if err != nil {
			t.Fatal(err)
		}
		if got := stat.Mode().Perm(); got != want {
			t.Errorf("%o became %o, want %o", before, got, want)
		}
	}
}

func TestWriteFileReplacesWhatACrashLeft(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	put(t, name+".new", "half") // mode 0755
	if err := writeFile(name, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(name)
	if err != nil || string(content) != "whole" {
		t.Errorf("content %q, error %v", content, err)
	}
	if stat, err := os.Stat(name); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", stat.Mode(), err)
	}
}
