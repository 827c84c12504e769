package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"maps"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// source makes a layer.
type source func(context.Context, *builder) (*layer, error)

// archive is a file with images of the same layers.
type archive struct {
	name   string
	layers []source
	images map[string]v1.Config // by tag
}

func (a archive) tags() []string { return sortedKeys(a.images) }

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// archives in the order in which a cluster needs them.
var archives = []archive{
	{
		name:   "databases-patroni",
		layers: []source{files("base", base), bundle, program("databases-patroni", "./cmd/databases-patroni")},
		images: map[string]v1.Config{"databases-patroni:dev": ours("/databases-patroni")},
	},
	{
		name:   "postgres-15",
		layers: []source{postgresRoot("15", "bookworm")},
		images: map[string]v1.Config{
			"postgres:15":          official("15", layoutData),
			"postgres:15-next":     labelled(official("15", layoutData), "next"), // another image, for rolling changes
			"postgres:15-layout18": official("15", layout18),
		},
	},
	{
		name:   "databases",
		layers: []source{files("base", base), program("databases", "./cmd/databases")},
		images: map[string]v1.Config{"databases:dev": ours("/databases")},
	},
	{
		name:   "postgres-17",
		layers: []source{postgresRoot("17", "trixie")},
		images: map[string]v1.Config{"postgres:17": official("17", layoutData)},
	},
	{
		name:   "postgres-15-trixie",
		layers: []source{postgresRoot("15", "trixie", "bookworm")},
		images: map[string]v1.Config{"postgres:15-trixie": official("15", layoutData)},
	},
	{
		name:   "postgres-15-alpine",
		layers: []source{files("alpine", alpine)},
		images: map[string]v1.Config{"postgres:15-alpine": official("15", layoutData)},
	},
	{
		// In place of Grafana and its like, for the manifests that run them.
		name:   "standin",
		layers: []source{files("base", base), program("standin", "./dev/images/standin")},
		images: map[string]v1.Config{"standin:dev": ours("/standin")},
	},
}

func ours(program string) v1.Config {
	return v1.Config{
		Entrypoint: []string{program}, User: "65532:65532", WorkingDir: "/",
		Env: []string{"PATH=" + searchPath, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
	}
}

// layoutData is where the official images up to 17 have their data and their volume, layout18 where newer ones do.
func layoutData(string) (volume, pgdata string) {
	return "/var/lib/postgresql/data", "/var/lib/postgresql/data"
}
func layout18(major string) (volume, pgdata string) {
	return "/var/lib/postgresql", "/var/lib/postgresql/" + major + "/docker"
}

// official is the configuration of postgres:MAJOR.
func official(major string, layout func(string) (string, string)) v1.Config {
	volume, pgdata := layout(major)
	return v1.Config{
		Entrypoint: []string{"docker-entrypoint.sh"},
		Cmd:        []string{"postgres"},
		StopSignal: "SIGINT",
		Volumes:    map[string]struct{}{volume: {}},
		ExposedPorts: map[string]struct{}{
			"5432/tcp": {},
		},
		Env: []string{
			"PATH=" + searchPath + ":/usr/lib/postgresql/" + major + "/bin", "LANG=en_US.utf8", "PG_MAJOR=" + major, "PGDATA=" + pgdata,
		},
	}
}

func labelled(config v1.Config, build string) v1.Config {
	config.Labels = maps.Clone(config.Labels)
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	config.Labels["build"] = build
	return config
}

// alpine has programs that name musl's loader, which is all that the launcher looks at before it refuses them. They
// can't be run.
func alpine(*builder) (map[string]entry, error) {
	loader := "/lib/ld-musl-x86_64.so.1"
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		loader, machine = "/lib/ld-musl-aarch64.so.1", elf.EM_AARCH64
	}
	program, err := dynamic(machine, loader)
	if err != nil {
		return nil, err
	}
	all := map[string]entry{
		"etc/passwd":                           {0o644, []byte("root:x:0:0:root:/root:/bin/sh\npostgres:x:70:70::/var/lib/postgresql:/bin/sh\n")},
		"etc/group":                            {0o644, []byte("root:x:0:\npostgres:x:70:\n")},
		"usr/local/bin/docker-entrypoint.sh":   {0o755, []byte("#!/bin/sh\nexit 1\n")},
		"var/lib/postgresql/data/.placeholder": {0o644, nil},
	}
	for _, name := range []string{"postgres", "initdb", "pg_ctl", "pg_controldata", "pg_basebackup", "pg_rewind", "pg_isready"} {
		all["usr/local/bin/"+name] = entry{0o755, program}
	}
	return all, nil
}

// dynamic is the head of a program that wants a loader, and nothing else.
func dynamic(machine elf.Machine, loader string) ([]byte, error) {
	const headerSize, segmentSize = 64, 56
	name := append([]byte(loader), 0)
	header := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: headerSize, Ehsize: headerSize, Phentsize: segmentSize, Phnum: 1,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	segment := elf.Prog64{
		Type: uint32(elf.PT_INTERP), Flags: uint32(elf.PF_R), Off: headerSize + segmentSize,
		Filesz: uint64(len(name)), Memsz: uint64(len(name)), Align: 1,
	}
	var out bytes.Buffer
	for _, part := range []any{header, segment, name} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
