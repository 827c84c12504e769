package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const auditLines = `{"stage":"ResponseComplete","verb":"get","userAgent":"databases/v0.0.0","objectRef":{"resource":"secrets"},"requestReceivedTimestamp":"2001-01-01T00:00:00.000000Z","stageTimestamp":"2001-01-01T00:00:00.002000Z"}
{"stage":"ResponseComplete","verb":"patch","userAgent":"databases/v0.0.0","objectRef":{"resource":"databases","subresource":"status"},"requestReceivedTimestamp":"2001-01-01T00:00:00.000000Z","stageTimestamp":"2001-01-01T00:00:00.003000Z"}
{"stage":"ResponseComplete","verb":"create","userAgent":"databases/v0.0.0","objectRef":{"resource":"events"},"requestReceivedTimestamp":"2001-01-01T00:00:00.000000Z","stageTimestamp":"2001-01-01T00:00:00.004000Z"}
{"stage":"ResponseStarted","verb":"watch","userAgent":"databases/v0.0.0","objectRef":{"resource":"databases"}}
{"stage":"ResponseComplete","verb":"watch","userAgent":"databases/v0.0.0","objectRef":{"resource":"databases"}}
{"stage":"ResponseComplete","verb":"create","userAgent":"bench/v0.0.0","objectRef":{"resource":"databases"}}
`

func TestRequestsOfTheProgramAreCounted(t *testing.T) {
	const earlier = `{"stage":"ResponseComplete","verb":"list","userAgent":"databases/v0.0.0","objectRef":{"resource":"databases"}}` + "\n"
	log := &auditLog{file: filepath.Join(t.TempDir(), "audit.log")}
	if err := os.WriteFile(log.file, []byte(earlier+auditLines), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := log.since(int64(len(earlier)))
	if err != nil {
		t.Fatal(err)
	}
	want := requests{
		Verbs: map[string]int{"get": 1, "patch": 1, "create": 1, "watch": 1},
		Reads: 1, Writes: 1, Events: 1, Waited: 5 * time.Millisecond,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
