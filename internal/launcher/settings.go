package launcher

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// Settings come from the environment; contract.go names the variables.
type Settings struct {
	Template               string
	PodName, PodIP         string
	PodNamespace           string
	PGData, Volume         string
	RunDir, CredentialsDir string
	TerminationLog         string
	AcceptCollation        string
}

// ReadSettings reads all of them and names all faults at once.
func ReadSettings(getenv func(string) string) (Settings, error) {
	or := func(name, otherwise string) string {
		if value := getenv(name); value != "" {
			return value
		}
		return otherwise
	}
	var faults []error
	need := func(name string) string {
		value := getenv(name)
		if value == "" {
			faults = append(faults, fmt.Errorf("%s is not set", name))
		}
		return value
	}
	s := Settings{
		Template:        need(EnvTemplate),
		PodName:         need(EnvPodName),
		PodIP:           need(EnvPodIP),
		PodNamespace:    need(EnvPodNamespace),
		PGData:          need(EnvPGData),
		RunDir:          or(EnvRunDir, DefaultRunDir),
		CredentialsDir:  or(EnvCredentialsDir, DefaultCredentialsDir),
		TerminationLog:  or(EnvTerminationLog, DefaultTerminationLog),
		AcceptCollation: getenv(EnvAcceptCollation),
	}
	s.Volume = or(EnvVolume, filepath.Dir(s.PGData))
	if s.PodIP != "" && net.ParseIP(s.PodIP) == nil {
		faults = append(faults, fmt.Errorf("%s is %q, which is no IP address", EnvPodIP, s.PodIP))
	}
	for name, path := range map[string]string{EnvPGData: s.PGData, EnvVolume: s.Volume, EnvRunDir: s.RunDir} {
		if s.PGData != "" && !filepath.IsAbs(path) {
			faults = append(faults, fmt.Errorf("%s is %q, which is no absolute path", name, path))
		}
	}
	return s, errors.Join(faults...)
}
