package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// dashboardFile is where the dashboard is, seen from this module's folder, in which `go run -C` and `go test` start.
var dashboardFile = filepath.FromSlash("../../deploy/monitoring/dashboard.json")

func main() {
	if err := generate(dashboardFile); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func generate(file string) error {
	content, err := encoded()
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// encoded is the dashboard as the file has it.
func encoded() ([]byte, error) {
	d, err := newDashboard()
	if err != nil {
		return nil, fmt.Errorf("building the dashboard: %w", err)
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false) // queries have < and >
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("writing the dashboard as JSON: %w", err)
	}
	return content.Bytes(), nil
}
