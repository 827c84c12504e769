package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Run is the main container's first process: it looks at the image and the data, writes Patroni's configuration and
// runs Patroni until that ends. It returns the exit status.
func Run(ctx context.Context, settings Settings, log io.Writer) (int, error) {
	launch, err := ready(ctx, settings)
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return ExitRefused, errors.Join(refusal, Report(settings.TerminationLog, refusal))
	}
	if err != nil {
		return 1, err
	}
	return supervise(launch, log)
}

// launch is all that is needed to start Patroni and to write its configuration anew.
type launch struct {
	settings    Settings
	pod         Pod
	python      string
	credentials Credentials
	rest        string      // the URL of Patroni's REST interface
	restarts    []time.Time // when Patroni was started again
}

// ready checks everything, and only then writes.
func ready(ctx context.Context, settings Settings) (*launch, error) {
	image, err := Inspect(ctx)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for the bundle: %w", err)
	}
	user, err := User()
	if err != nil {
		return nil, err
	}
	data, err := readData(settings.PGData, settings.Volume)
	if err != nil {
		return nil, err
	}
	write, err := Guard(image, data, settings.AcceptCollation)
	if err != nil {
		return nil, err
	}
	l := &launch{settings: settings, python: pythonOf(program), pod: Pod{
		Name: settings.PodName, Namespace: settings.PodNamespace, IP: settings.PodIP,
		PGData: settings.PGData, RunDir: settings.RunDir, User: user, Program: program, Image: image,
	}}
	l.rest = "http://" + address(l.pod.IP, PortREST)
	if l.credentials, err = ReadCredentials(settings.CredentialsDir); err != nil {
		return nil, err
	}
	if err := l.writeConfig(); err != nil {
		return nil, err
	}
	if err := prepare(settings.PGData); err != nil {
		return nil, err
	}
	if write {
		return l, writeRecord(settings.Volume, Record{CollationVersion: image.CollationVersion})
	}
	return l, nil
}

// pythonOf is the bundle's Python: Install puts the program beside it.
func pythonOf(program string) string {
	return filepath.Join(filepath.Dir(program), "bin", "python3.11")
}

func (l *launch) configFile() string { return filepath.Join(l.settings.RunDir, ConfigFile) }

func (l *launch) writeConfig() error {
	content, err := Config([]byte(l.settings.Template), l.pod, l.credentials)
	if err != nil {
		return err
	}
	if err := writeFile(l.configFile(), content); err != nil {
		return fmt.Errorf("writing Patroni's configuration: %w", err)
	}
	return nil
}

// command is Patroni's program, arguments and environment. -I keeps Python off the image's own modules and settings.
func (l *launch) command() (argv, env []string) {
	argv = []string{l.python, "-I", "-B", "-m", "patroni", l.configFile()}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PATRONI_") && !strings.HasPrefix(variable, "TMPDIR=") {
			env = append(env, variable)
		}
	}
	// Patroni hands initdb the password in a temporary file: it must be in memory, and the root may be read-only.
	return argv, append(env, "TMPDIR="+l.settings.RunDir)
}

// Ctl becomes patronictl. It returns only with an error.
func Ctl(args []string, getenv func(string) string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for the bundle: %w", err)
	}
	runDir := getenv(EnvRunDir)
	if runDir == "" {
		runDir = DefaultRunDir
	}
	argv := append([]string{pythonOf(program), "-I", "-B", "-c", "from patroni.ctl import ctl; ctl(prog_name='patronictl')",
		"-c", filepath.Join(runDir, ConfigFile)}, args...)
	if err := syscall.Exec(argv[0], argv, append(os.Environ(), "LC_ALL=C.UTF-8")); err != nil { //nolint:gosec // the bundle's Python
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	return nil
}
