package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// DatabaseKind is the kind of a Database.
	DatabaseKind = "Database"

	// Finalizer keeps a deleted Database until its deletionPolicy has been carried out. It is on every Database
	// before anything is made for it.
	Finalizer = "database.example.com/finalizer"

	// PausedAnnotation with the value "true" makes the controller leave a Database alone, in Kubernetes and in
	// PostgreSQL; also its deletion waits.
	PausedAnnotation = "database.example.com/paused"

	// ReconcileAnnotation with any new value makes the controller look at a Database at once.
	ReconcileAnnotation = "database.example.com/reconcile"

	// AcceptCollationAnnotation has the collation version, as 2.41, of an image that may run although the data was
	// sorted by another version: whoever sets it rebuilds the indexes that depend on it afterwards.
	AcceptCollationAnnotation = "database.example.com/accept-collation"

	// SecretSuffix is appended to a Database's metadata.name to name the Secret to log in with.
	SecretSuffix = "-credentials"

	// Port is the port that PostgreSQL listens on, in the pods and in the Services.
	Port = 5432
)

// DeletionPolicy says what deleting a Database does to its volumes.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

const (
	// DeletionPolicyRetain keeps the PersistentVolumeClaims: a Database of the same name takes them over.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete deletes the PersistentVolumeClaims with all data.
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// Durability says when a write is acknowledged.
// +kubebuilder:validation:Enum=Sync;Async
type Durability string

const (
	// DurabilitySync acknowledges a write once a standby has it too, so that a failover loses none. While no standby
	// is there, the primary goes on alone.
	DurabilitySync Durability = "Sync"
	// DurabilityAsync acknowledges a write once the primary has it: a failover may lose the last ones.
	DurabilityAsync Durability = "Async"
)

// Phase is the state of a Database in a word.
// +kubebuilder:validation:Enum=Pending;Creating;Ready;Failed
type Phase string

const (
	// PhasePending says that no pod runs yet.
	PhasePending Phase = "Pending"
	// PhaseCreating says that pods are starting, or not all are as they should be.
	PhaseCreating Phase = "Creating"
	// PhaseReady says that a client can log in, and all replicas are ready and streaming.
	PhaseReady Phase = "Ready"
	// PhaseFailed says that a person must mend something; the condition Ready says what.
	PhaseFailed Phase = "Failed"
)

// Storage is the volume of each replica.
// +kubebuilder:validation:XValidation:rule="has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",message="storageClass can't be changed: make another Database and copy the data"
type Storage struct {
	// size is each volume's size, a whole number of Mi or Gi. It can grow and not shrink.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi)$')",message="must be a whole number of Mi or Gi, as 500Mi or 10Gi"
	Size string `json:"size,omitempty"`

	// storageClass is the StorageClass of the volumes; left out, the cluster's default. It can't be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClass string `json:"storageClass,omitempty"`
}

// ParameterValue is the value of a PostgreSQL parameter, as postgresql.conf has it, without quotes.
// +kubebuilder:validation:MaxLength=1000
// +kubebuilder:validation:XValidation:rule="!self.matches('[\\n\\r]')",message="must be one line"
type ParameterValue string

// DatabaseSpec is what the server, its database and its user should be.
type DatabaseSpec struct {
	// image is an official PostgreSQL image, or one made from it, of version 14 to 18. A change to another image of
	// the same major version restarts the replicas one by one; another major version is refused once there is data.
	// +optional
	// +default="postgres:14"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([a-zA-Z0-9._/:@-]*[a-zA-Z0-9])?$')",message="must be an image reference, as postgres:17"
	Image string `json:"image,omitempty"`

	// replicas is how many servers hold the data: one primary, the others streaming standbys.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas int32 `json:"replicas,omitempty"`

	// databaseName is the name of the database. It can't be changed.
	// A letter or "_" first, then letters, digits, "_" and "-"; at most 63 characters; case matters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_-]*$')",message="must begin with a letter or '_' and go on with letters, digits, '_' and '-' (ASCII)"
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres', 'template0', 'template1', 'public', 'none', 'rdsadmin', 'cloudsqladmin', 'azure_maintenance', 'azure_sys', 'replicator'])",message="is reserved by PostgreSQL, by a cloud provider or for replication; choose another name"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_')",message="must not begin with 'pg_', which PostgreSQL reserves"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="can't be changed: make another Database with the new name and copy the data"
	DatabaseName string `json:"databaseName,omitempty"`

	// username is the name of the role that owns the database and that clients log in as. It is no superuser. It
	// can't be changed. The same rules as for databaseName.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_-]*$')",message="must begin with a letter or '_' and go on with letters, digits, '_' and '-' (ASCII)"
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres', 'template0', 'template1', 'public', 'none', 'rdsadmin', 'cloudsqladmin', 'azure_maintenance', 'azure_sys', 'replicator'])",message="is reserved by PostgreSQL, by a cloud provider or for replication; choose another name"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_')",message="must not begin with 'pg_', which PostgreSQL reserves"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="can't be changed: make another Database with the new name and copy the data"
	Username string `json:"username,omitempty"`

	// storage is the volume of each replica.
	// +required
	Storage Storage `json:"storage,omitzero"`

	// resources are each replica's requests and limits of CPU and memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// deletionPolicy says what deleting this Database does to its volumes: "Retain" (the default) keeps them, for a
	// Database of the same name to take over; "Delete" deletes them. It may change at any time.
	// +optional
	// +default="Retain"
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// durability says when a write is acknowledged where there are standbys: "Sync" (the default) once a standby has
	// it too, "Async" once the primary has it.
	// +optional
	// +default="Sync"
	Durability Durability `json:"durability,omitempty"`

	// parameters are PostgreSQL's, as {"work_mem": "16MB"}. One that needs a restart restarts the replicas one by one.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) <= 63 && name.matches('^[a-z_][a-z0-9_]*([.][a-z_][a-z0-9_]*)?$'))",message="a parameter's name has lower-case letters, digits and '_', and may have one '.'; at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !(name in ['listen_addresses', 'port', 'unix_socket_directories', 'data_directory', 'config_file', 'hba_file', 'ident_file', 'external_pid_file', 'cluster_name', 'hot_standby', 'wal_level', 'wal_log_hints', 'primary_conninfo', 'primary_slot_name', 'restore_command', 'archive_mode', 'archive_command', 'archive_library', 'recovery_target_timeline', 'synchronous_standby_names', 'fsync', 'full_page_writes', 'password_encryption', 'ssl', 'ssl_cert_file', 'ssl_key_file', 'ssl_ca_file']))",message="has a parameter that the controller sets itself, or that would lose data; see docs/server.md"
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`

	// affinity is the pods'; left out, replicas prefer different nodes.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations are the pods'.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// nodeSelector is the pods'.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// topologySpreadConstraints are the pods'.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// imagePullSecrets name Secrets of this namespace with which images are pulled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// SecretBinding names a Secret of the Database's namespace, as the Service Binding specification has it.
type SecretBinding struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// DatabaseStatus is what the controller last saw and did.
// +kubebuilder:validation:MinProperties=1
type DatabaseStatus struct {
	// conditions has Ready and UpToDate, whose reasons and messages say what is missing and what to do, and Paused
	// while the controller is told to leave the Database alone.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is the state in a word: Pending, Creating, Ready or Failed.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// ready says that a client can log in with the Secret.
	// +optional
	Ready bool `json:"ready"`

	// endpoint is the primary's address for clients, HOST:PORT.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	Endpoint string `json:"endpoint,omitempty"`

	// secretName names the Secret with host, port, database, username and password, and with uri and jdbc-url made
	// of them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// binding names the same Secret where the Service Binding specification looks for it.
	// +optional
	Binding SecretBinding `json:"binding,omitzero"`

	// secretVersion is the uid and resourceVersion of the Secret whose password was last set on the role.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretVersion string `json:"secretVersion,omitempty"`

	// replicas is how many pods there are, ready or not.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many pods are ready: the primary takes connections, standbys stream.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	Selector string `json:"selector,omitempty"`

	// primary is the pod that takes writes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Primary string `json:"primary,omitempty"`

	// image is the image that the replicas run or are changing to; spec.image differs while it isn't accepted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// version is PostgreSQL's version as the primary gives it, as 17.6.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`

	// collationVersion is the version of the C library by which the running image sorts text, as 2.41.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	CollationVersion string `json:"collationVersion,omitempty"`
}

// Database is a PostgreSQL server with as many replicas as it is to have, a database and a user on it, and a Secret to
// log in with.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,shortName=pgserver,categories=databases-all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`,priority=1
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,priority=1
// +kubebuilder:printcolumn:name="Storage",type=string,JSONPath=`.spec.storage.size`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must begin with a letter, go on with lower-case letters, digits and '-', and have at most 52 characters, so that the names of its pods and Services fit"
type Database struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the server, its database and its user should be.
	// +required
	Spec DatabaseSpec `json:"spec,omitzero"`

	// status is what the controller last saw and did.
	// +optional
	Status DatabaseStatus `json:"status,omitzero"`
}

// SecretName is the name of the Secret to log in with.
func (d *Database) SecretName() string { return d.Name + SecretSuffix }

// DatabaseList is a list of Databases.
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the Databases.
	Items []Database `json:"items"`
}
