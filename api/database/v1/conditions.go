package v1

// The types of a Database's conditions.
const (
	// ConditionReady is True when a client can log in and all replicas are ready and streaming.
	ConditionReady = "Ready"
	// ConditionUpToDate is True when everything that the spec wishes has been carried out.
	ConditionUpToDate = "UpToDate"
	// ConditionPaused is True while PausedAnnotation keeps the controller away; otherwise there is none.
	ConditionPaused = "Paused"
)

// The reasons of Ready. Each is also the reason of the event that reports it.
const (
	// ReasonProvisioned: all replicas are ready, and the Secret logs in (True).
	ReasonProvisioned = "Provisioned"
	// ReasonPodsStarting: pods are starting or restarting.
	ReasonPodsStarting = "PodsStarting"
	// ReasonNoPrimary: no pod takes writes.
	ReasonNoPrimary = "NoPrimary"
	// ReasonUnschedulable: no node can take a pod, or its volume can't be made.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImagePullFailed: an image can't be pulled.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonPodFailing: PostgreSQL or Patroni ends again and again.
	ReasonPodFailing = "PodFailing"
	// ReasonInvalidSpec: the stored spec can't be used, although admission let it in.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonChildConflict: an object of a name that the Database needs exists and isn't its own.
	ReasonChildConflict = "ChildConflict"
	// ReasonApplyFailed: an object that the Database needs could not be applied.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonPostgresUnavailable: PostgreSQL can't be reached, or refused for a reason that has no name of its own.
	ReasonPostgresUnavailable = "PostgresUnavailable"
	// ReasonSecretApplyFailed: the Secret could not be read or applied.
	ReasonSecretApplyFailed = "SecretApplyFailed"
	// ReasonSecretConflict: a Secret of that name exists and isn't this Database's.
	ReasonSecretConflict = "SecretConflict"
	// ReasonPasswordRejected: the server refused the password that the Secret holds.
	ReasonPasswordRejected = "PasswordRejected"
	// ReasonNameReserved: the user's or the database's name is a privileged role's.
	ReasonNameReserved = "NameReserved"
	// ReasonAlreadyExists: the volume's data has a role or a database of that name that no Database has claimed.
	ReasonAlreadyExists = "AlreadyExists"
	// ReasonNameConflict: another Database has claimed the role in the volume's data.
	ReasonNameConflict = "NameConflict"
	// ReasonInUse: the Database is being deleted, and waits for shared Databases that live on it.
	ReasonInUse = "InUse"
)

// The reasons of UpToDate. UnsupportedImage, MajorUpgradeRequired and CollationMismatch are Ready's too where nothing
// can run.
const (
	// ReasonUpToDate: there is nothing left to do (True).
	ReasonUpToDate = "UpToDate"
	// ReasonUnsupportedImage: the image can't run here: no PostgreSQL of a supported version, or no glibc.
	ReasonUnsupportedImage = "UnsupportedImage"
	// ReasonMajorUpgradeRequired: the image has another major version than the data.
	ReasonMajorUpgradeRequired = "MajorUpgradeRequired"
	// ReasonCollationMismatch: the image sorts text by another version of the C library than the data was.
	ReasonCollationMismatch = "CollationMismatch"
	// ReasonInspectingImage: a pod finds out what the new image holds.
	ReasonInspectingImage = "InspectingImage"
	// ReasonStorageShrinkRejected: the spec asks for smaller volumes than there are.
	ReasonStorageShrinkRejected = "StorageShrinkRejected"
	// ReasonStorageNotExpandable: the volumes can't grow.
	ReasonStorageNotExpandable = "StorageNotExpandable"
	// ReasonStorageResizing: the volumes are growing.
	ReasonStorageResizing = "StorageResizing"
	// ReasonInvalidParameters: PostgreSQL doesn't know a parameter, or not the value.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonRollingOut: replicas are being restarted one by one, or the primary is moved.
	ReasonRollingOut = "RollingOut"
	// ReasonReplicaStuck: a standby doesn't come to stream, and has been cloned anew for it already.
	ReasonReplicaStuck = "ReplicaStuck"
)

// ReasonPaused is the reason of Paused.
const ReasonPaused = "Paused"

// Reasons of events that aren't a condition's.
const (
	// ReasonDatabaseRecreated: the database had gone and was created again, empty (Warning).
	ReasonDatabaseRecreated = "DatabaseRecreated"
	// ReasonVolumesAdopted: the Database took over volumes of an earlier one (Normal).
	ReasonVolumesAdopted = "VolumesAdopted"
	// ReasonVolumesRetained: the Database is deleted and its volumes stay (Normal).
	ReasonVolumesRetained = "VolumesRetained"
	// ReasonSwitchover: another replica became the primary, for a planned change (Normal).
	ReasonSwitchover = "Switchover"
	// ReasonRecloning: a standby that didn't come to stream throws its data away and copies the primary's (Warning).
	ReasonRecloning = "Recloning"
	// ReasonRestarting: a replica is restarted, for the reason that the message gives (Normal).
	ReasonRestarting = "Restarting"
	// ReasonFailureScenarioInvalid: the failure scenario that the Database carries doesn't parse and is ignored (Warning).
	ReasonFailureScenarioInvalid = "FailureScenarioInvalid"
)
