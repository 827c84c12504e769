package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// requests are the API requests of the program.
type requests struct {
	// Verbs counts them all, those for events too.
	Verbs map[string]int
	// Reads are gets and lists; Writes are what changes an object other than an event, which Events counts.
	Reads, Writes, Events int
	// Waited is the sum of the times that the API server took for reads and writes.
	Waited time.Duration
}

// auditLog is the API server's, which writes a line for a request before it answers.
type auditLog struct{ file string }

// end is the file's size: where the requests of now begin.
func (a *auditLog) end() (int64, error) {
	info, err := os.Stat(a.file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// since counts the program's requests after an offset.
func (a *auditLog) since(offset int64) (requests, error) {
	r := requests{Verbs: map[string]int{}}
	file, err := os.Open(a.file)
	if err != nil {
		return r, err
	}
	defer file.Close()
	end, err := a.end()
	if err != nil {
		return r, err
	}
	content := make([]byte, end-offset)
	if _, err := file.ReadAt(content, offset); err != nil {
		return r, err
	}
	mark := []byte(`"userAgent":"` + programName + "/")
	for line := range bytes.Lines(content) {
		if !bytes.Contains(line, mark) {
			continue
		}
		if err := r.add(line); err != nil {
			return r, fmt.Errorf("reading the audit log: %w", err)
		}
	}
	return r, nil
}

func (r *requests) add(line []byte) error {
	var event struct {
		Stage, Verb              string
		ObjectRef                struct{ Resource string }
		RequestReceivedTimestamp time.Time
		StageTimestamp           time.Time
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return err
	}
	watch := event.Verb == "watch"
	if watch != (event.Stage == "ResponseStarted") {
		return nil // a watch counts when it begins, everything else when it ends
	}
	r.Verbs[event.Verb]++
	switch event.Verb {
	case "get", "list":
		r.Reads++
	case "create", "update", "patch", "delete", "deletecollection":
		if event.ObjectRef.Resource == "events" {
			r.Events++
			return nil
		}
		r.Writes++
	}
	if !watch {
		r.Waited += event.StageTimestamp.Sub(event.RequestReceivedTimestamp)
	}
	return nil
}
