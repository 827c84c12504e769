package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "../..", "the checkout")
	flag.Parse()
	if err := generate(*root); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// generate writes all generated files below the checkout's root.
func generate(root string) error {
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(root, f.from))
		if err != nil {
			return err
		}
		text, err := f.render(string(content))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, f.to), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
