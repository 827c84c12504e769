package launcher

import (
	"encoding/json"
	"fmt"
	"os"
)

// Report writes one line of JSON where the kubelet looks for a container's last words.
func Report(terminationLog string, report any) error {
	line, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	// The kubelet mounts the file itself: it can be written and not replaced.
	if err := os.WriteFile(terminationLog, append(line, '\n'), 0o644); err != nil { //nolint:gosec // the kubelet reads it
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
