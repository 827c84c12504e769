package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	programPackage  = "github.com/example/databases/cmd/databases"
	profileVariable = "BENCH_PROFILES"
	profileAtStart  = "BENCH_PROFILE_AT_START"
)

// profilingSource is a file that a build for -profile adds to the program: SIGUSR1 starts a CPU profile, the next one
// ends it and writes a heap profile beside it. The first one may begin with the program.
const profilingSource = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"
)

func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for n := 1; ; n++ {
			base := filepath.Join(os.Getenv("` + profileVariable + `"), fmt.Sprintf("%d-%d", os.Getpid(), n))
			if n > 1 || os.Getenv("` + profileAtStart + `") == "" {
				<-signals
			}
			cpu, err := os.Create(base + ".cpu")
			if err != nil || pprof.StartCPUProfile(cpu) != nil {
				return
			}
			<-signals
			pprof.StopCPUProfile()
			if heap, err := os.Create(base + ".heap"); err == nil {
				_ = pprof.WriteHeapProfile(heap)
				_ = heap.Close()
			}
			_ = cpu.Close()
		}
	}()
}
`

// profiling writes what "go build -overlay" needs to add the file to the program.
func profiling(ctx context.Context, dir string) (overlay string, err error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", programPackage).Output()
	if err != nil {
		return "", fmt.Errorf("finding the program's source: %w", err)
	}
	source := filepath.Join(dir, "profiling.go")
	if err := os.WriteFile(source, []byte(profilingSource), 0o600); err != nil {
		return "", err
	}
	replaced := filepath.Join(strings.TrimSpace(string(output)), "bench_profiling.go")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {replaced: source}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o600)
}

// profile starts or ends a profile, if the program was built for it.
func (c *controller) profile(folder string) error {
	if folder == "" {
		return nil
	}
	if err := c.process.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond) // nothing tells when the signal was handled
	return nil
}
