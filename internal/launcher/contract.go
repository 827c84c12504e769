package launcher

import (
	"encoding/json"
	"fmt"
)

// Paths. The bundle lies in BundleDir of our image, and the init container's `Program install DEST` copies it to where
// the pod's containers see it.
const (
	// BundleDir holds the bundle in the image databases-patroni.
	BundleDir = "/opt/databases-patroni"
	// Program is the launcher's name, in our image's root and in the folder that Install filled.
	Program = "databases-patroni"
	// DefaultRunDir is an in-memory emptyDir: Patroni's configuration, the pgpass file and PostgreSQL's socket.
	DefaultRunDir = "/run/databases"
	// DefaultCredentialsDir is where the Secret with the keys below is mounted.
	DefaultCredentialsDir = "/etc/databases/superuser" //nolint:gosec // a path
	// DefaultTerminationLog is where the kubelet looks for a container's last words.
	DefaultTerminationLog = "/dev/termination-log"
	// ConfigFile is Patroni's configuration in the run folder.
	ConfigFile = "patroni.yml"
	// RecordFile lies in the volume's root.
	RecordFile = "databases.json"
)

// Environment variables of `run` and `credentials`.
const (
	EnvTemplate        = "PATRONI_TEMPLATE" // Patroni's configuration without secrets, YAML or JSON
	EnvPodName         = "POD_NAME"
	EnvPodIP           = "POD_IP"
	EnvPodNamespace    = "POD_NAMESPACE"
	EnvPGData          = "PGDATA"
	EnvVolume          = "VOLUME_DIR"       // the volume's root; the folder above PGDATA unless given
	EnvRunDir          = "RUN_DIR"          // DefaultRunDir unless given
	EnvCredentialsDir  = "CREDENTIALS_DIR"  // DefaultCredentialsDir unless given
	EnvTerminationLog  = "TERMINATION_LOG"  // DefaultTerminationLog unless given
	EnvAcceptCollation = "ACCEPT_COLLATION" // the image's collation version, to accept that it isn't the data's
)

// Keys of the mounted Secret, and the names they belong to.
const (
	KeySuperuser   = "superuser-password"
	KeyReplication = "replication-password"
	KeyREST        = "restapi-password"

	RoleSuperuser   = "postgres"
	RoleReplication = "replicator"
	UserREST        = "databases"
)

// Tags of a member, by which Patroni publishes what its image holds: they are in the annotation "status" of the pod.
const (
	TagPostgresVersion  = "postgres_version"
	TagMajor            = "postgres_major"
	TagCollationVersion = "collation_version"
)

// Ports.
const (
	PortPostgres = 5432
	PortREST     = 8008
)

// What the launcher supports. The bundle's Python needs Debian bookworm's glibc.
const (
	OldestMajor = 14
	NewestMajor = 18
	OldestGlibc = "2.36"
)

// ExitRefused is the exit status that goes with a Refusal: trying again won't help.
const ExitRefused = 78

// Reason says in one word why an image or a volume is refused. The controller uses it as a condition's reason.
type Reason string

// Reasons.
const (
	UnsupportedImage     Reason = "UnsupportedImage"
	MajorUpgradeRequired Reason = "MajorUpgradeRequired"
	CollationMismatch    Reason = "CollationMismatch"
)

// Refusal is one line of JSON in the termination log. It is an error.
type Refusal struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Reason, r.Message) }

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Inspection is what an image holds: one line of JSON in the termination log of `inspect`.
type Inspection struct {
	Libc             string `json:"libc"`             // "glibc 2.36"
	CollationVersion string `json:"collationVersion"` // "2.36"
	PostgresVersion  string `json:"postgresVersion"`  // "15.18"
	Major            int    `json:"major"`
	BinDir           string `json:"binDir"`
	// UID and GID are the image's user postgres, 0 where it has none. The pod must run as them: peer authentication
	// and initdb want a name for the user.
	UID int `json:"uid,omitempty"`
	GID int `json:"gid,omitempty"`
}

// ParseReport reads the termination message of `inspect` or `run`: exactly one of the results is set.
func ParseReport(message string) (*Inspection, *Refusal, error) {
	var both struct {
		Inspection
		Refusal
	}
	if err := json.Unmarshal([]byte(message), &both); err != nil {
		return nil, nil, fmt.Errorf("reading a report of the launcher: %w", err)
	}
	switch {
	case both.Reason != "":
		return nil, &both.Refusal, nil
	case both.Major != 0 && both.CollationVersion != "":
		return &both.Inspection, nil, nil
	}
	return nil, nil, fmt.Errorf("reading a report of the launcher: it names neither a version nor a reason")
}
