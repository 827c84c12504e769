package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Record is the file in the volume's root that says what the data's text was sorted by. PostgreSQL itself keeps this
// from 15 on only, and not for a database's default where that is C.
type Record struct {
	CollationVersion string `json:"collationVersion"`
}

// Data is what the volume holds.
type Data struct {
	Major  string  // of PG_VERSION; "" where there is no data yet
	Record *Record // nil where there is none
}

// Guard decides whether an image may run on the data, and whether the record is to be written. The error is a
// *Refusal.
func Guard(image *Inspection, data Data, acceptCollation string) (write bool, err error) {
	if data.Major == "" {
		return true, nil
	}
	if data.Major != fmt.Sprint(image.Major) {
		return false, refuse(MajorUpgradeRequired, "the data was made by PostgreSQL %s and the image holds %s; the data is untouched", data.Major, image.PostgresVersion)
	}
	switch {
	case data.Record == nil:
		return true, nil
	case data.Record.CollationVersion == image.CollationVersion:
		return false, nil
	case acceptCollation == image.CollationVersion:
		return true, nil
	}
	return false, refuse(CollationMismatch, "the data's text was sorted by glibc %s and the image has glibc %s: indexes on text may be wrong; the data is untouched",
		data.Record.CollationVersion, image.CollationVersion)
}

// readData looks at the volume without changing it.
func readData(pgdata, volume string) (Data, error) {
	var data Data
	version, err := os.ReadFile(filepath.Join(pgdata, "PG_VERSION")) //nolint:gosec // named by the pod's own settings
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return data, fmt.Errorf("looking at the data: %w", err)
	}
	data.Major = strings.TrimSpace(string(version))
	content, err := os.ReadFile(filepath.Join(volume, RecordFile)) //nolint:gosec // named by the pod's own settings
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return data, nil
	case err != nil:
		return data, fmt.Errorf("reading the record: %w", err)
	}
	data.Record = &Record{}
	if err := json.Unmarshal(content, data.Record); err != nil || data.Record.CollationVersion == "" {
		return data, fmt.Errorf("reading the record: %s is not what the launcher writes; mend it, or delete it to accept the image's collation version", filepath.Join(volume, RecordFile))
	}
	return data, nil
}

func writeRecord(volume string, record Record) error {
	content, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	if err := writeFile(filepath.Join(volume, RecordFile), append(content, '\n')); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	return nil
}

// writeFile replaces a file at once, also across a crash, with mode 0600.
func writeFile(name string, content []byte) (err error) {
	temporary := name + ".new" // one name: a crash leaves one file behind, which the next write replaces
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // named by the pod's own settings
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary, name)
	}
	return err
}

// prepare makes the folders above PGDATA, and takes from PGDATA itself what a volume's fsGroup gave to the group and
// PostgreSQL refuses.
func prepare(pgdata string) error {
	if err := os.MkdirAll(filepath.Dir(pgdata), 0o700); err != nil {
		return fmt.Errorf("making the folder of the data: %w", err)
	}
	stat, err := os.Stat(pgdata)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // initdb and pg_basebackup make it
	}
	if err != nil {
		return fmt.Errorf("looking at the data: %w", err)
	}
	if stat.Mode().Perm()&^0o750 == 0 {
		return nil
	}
	if err := os.Chmod(pgdata, 0o700); err != nil { //nolint:gosec // a folder
		return fmt.Errorf("giving the data to its owner alone: %w", err)
	}
	return nil
}
