package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// DatabaseKind is the kind of a Database.
	DatabaseKind = "Database"

	// Finalizer keeps a deleted Database until its deletionPolicy has been carried out. It is on every Database
	// before any SQL is sent for it.
	Finalizer = "postgres.example.com/finalizer"

	// PausedAnnotation with the value "true" makes the controller leave a Database alone, in Kubernetes and in
	// PostgreSQL; also its deletion waits.
	PausedAnnotation = "postgres.example.com/paused"

	// ReconcileAnnotation with any new value makes the controller look at a Database at once.
	ReconcileAnnotation = "postgres.example.com/reconcile"

	// FailureScenarioAnnotation has the faults that are injected into the work on a Database, as
	// "provision=3*error", in namespaces that the controller trusts. Databases of both kinds carry it under this key.
	FailureScenarioAnnotation = "postgres.example.com/failure-scenario"

	// SecretSuffix is appended to a Database's metadata.name to name its Secret.
	SecretSuffix = "-postgres"
)

// DeletionPolicy says what deleting a Database does to the role and the database in PostgreSQL.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

const (
	// DeletionPolicyRetain leaves the role and the database as they are: deleting sends no SQL at all.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete drops the database with all its data, then the role.
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// ServerReference names a dedicated Database (database.example.com) of the same namespace.
type ServerReference struct {
	// name is the dedicated Database's metadata.name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')",message="must begin with a small letter, go on with small letters, digits and '-', and end with a letter or digit"
	Name string `json:"name,omitempty"`
}

// DatabaseSpec is what the role and the database should be.
// +kubebuilder:validation:XValidation:rule="has(self.serverRef) == has(oldSelf.serverRef) && (!has(self.serverRef) || self.serverRef.name == oldSelf.serverRef.name)",message="serverRef can't be added, changed or removed: make another Database and copy the data"
type DatabaseSpec struct {
	// name is the name of the database and of the role that owns it. It can't be changed.
	// A letter or "_" first, then letters, digits, "_" and "-"; at most 63 characters; case matters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_-]*$')",message="must begin with a letter or '_' and go on with letters, digits, '_' and '-' (ASCII)"
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres', 'template0', 'template1', 'public', 'none', 'rdsadmin', 'cloudsqladmin', 'azure_maintenance', 'azure_sys'])",message="is reserved by PostgreSQL or by a cloud provider; choose another name"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_')",message="must not begin with 'pg_', which PostgreSQL reserves for its own roles"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="can't be changed: make another Database with the new name and copy the data"
	Name string `json:"name,omitempty"`

	// deletionPolicy says what deleting this Database does in PostgreSQL: "Retain" (the default) leaves the role
	// and the database as they are, "Delete" drops both with all data. It may change at any time, also while the
	// Database is being deleted.
	// +optional
	// +default="Retain"
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// connectionLimit is how many connections the role may have at once; left out, there is no limit. It is set on
	// the role, where the role itself can't raise it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=262143
	ConnectionLimit int32 `json:"connectionLimit,omitempty"`

	// serverRef names the dedicated Database (database.example.com) of this namespace on whose server the role and the
	// database live; left out, it is the server that the controller was started with. It can't be added, changed or
	// removed. The dedicated Database isn't deleted while there are Databases on it.
	// +optional
	ServerRef ServerReference `json:"serverRef,omitzero"`
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
	// conditions has Ready, whose reason and message say what is missing and what to do, and Paused while the
	// controller is told to leave the Database alone.
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
}

// Database is a role and a database of its own on a PostgreSQL server that runs already, with a Secret to log in with:
// the server that the controller was started with, or a dedicated one.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=pgdb,categories=databases-all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Database",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secretName`
// +kubebuilder:printcolumn:name="Server",type=string,priority=1,JSONPath=`.spec.serverRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 244",message="metadata.name must have at most 244 characters, so that the name of its Secret, <metadata.name>-postgres, fits"
type Database struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the role and the database should be.
	// +required
	Spec DatabaseSpec `json:"spec,omitzero"`

	// status is what the controller last saw and did.
	// +optional
	Status DatabaseStatus `json:"status,omitzero"`
}

// SecretName is the name of the Database's Secret.
func (d *Database) SecretName() string { return d.Name + SecretSuffix }

// DatabaseList is a list of Databases.
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the Databases.
	Items []Database `json:"items"`
}
