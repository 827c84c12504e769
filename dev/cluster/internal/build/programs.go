package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// AssetsVariable is the environment variable by which controller projects name a folder of programs to test with.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// Programs returns the file of each component's program: for etcd and kube-apiserver those in $KUBEBUILDER_ASSETS
// if that is set, for everything else those that this package builds.
func Programs(ctx context.Context, names []string, progress *os.File) (map[string]string, error) {
	programs := map[string]string{}
	assets := os.Getenv(AssetsVariable)
	built := map[*Target]string{}
	for _, name := range names {
		if assets != "" && (name == "etcd" || name == "kube-apiserver") {
			file, err := exec.LookPath(filepath.Join(assets, name))
			if err != nil {
				return nil, fmt.Errorf("$%s is set but has no program %s: install it there or unset the variable", AssetsVariable, name)
			}
			if programs[name], err = filepath.Abs(file); err != nil {
				return nil, err
			}
			continue
		}
		target := targetOf(name)
		if built[target] == "" {
			var err error
			if built[target], err = Ensure(ctx, target, progress); err != nil {
				return nil, err
			}
		}
		programs[name] = filepath.Join(built[target], name)
	}
	return programs, nil
}
