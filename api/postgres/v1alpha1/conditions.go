package v1alpha1

// The types of a Database's conditions.
const (
	// ConditionReady is True when the role, the database and the Secret are as the spec wishes.
	ConditionReady = "Ready"
	// ConditionPaused is True while PausedAnnotation keeps the controller away; otherwise there is none.
	ConditionPaused = "Paused"
)

// The reasons of Ready. Each is also the reason of the event that reports it.
const (
	// ReasonProvisioned: the role, the database and the Secret are there (True).
	ReasonProvisioned = "Provisioned"
	// ReasonPostgresUnavailable: the server can't be reached, or refused for a reason that has no name of its own.
	ReasonPostgresUnavailable = "PostgresUnavailable"
	// ReasonSecretApplyFailed: the Secret could not be read or applied.
	ReasonSecretApplyFailed = "SecretApplyFailed"
	// ReasonNoServer: the Database names no server and the controller was started without one.
	ReasonNoServer = "NoServer"
	// ReasonServerNotFound: the dedicated Database that spec.serverRef names doesn't exist.
	ReasonServerNotFound = "ServerNotFound"
	// ReasonNameConflict: another resource has claimed the name.
	ReasonNameConflict = "NameConflict"
	// ReasonAlreadyExists: a role or a database of that name exists and nobody has claimed it.
	ReasonAlreadyExists = "AlreadyExists"
	// ReasonNameReserved: the name is the admin's, or a privileged role's.
	ReasonNameReserved = "NameReserved"
	// ReasonInsufficientPrivilege: the admin role lacks a privilege; the message has the statement that grants it.
	ReasonInsufficientPrivilege = "InsufficientPrivilege"
	// ReasonSecretConflict: a Secret of that name exists and isn't this Database's.
	ReasonSecretConflict = "SecretConflict"
	// ReasonPasswordRejected: the server refused the password that the Secret holds.
	ReasonPasswordRejected = "PasswordRejected"
	// ReasonDropBlocked: sessions or prepared transactions that can't be ended keep the database (deleting).
	ReasonDropBlocked = "DropBlocked"
	// ReasonRoleHasDependents: other databases hold privileges or objects of the role (deleting).
	ReasonRoleHasDependents = "RoleHasDependents"
)

// ReasonPaused is the reason of Paused.
const ReasonPaused = "Paused"

// Reasons of events that aren't a condition's.
const (
	// ReasonDatabaseRecreated: the database had gone and was created again, empty (Warning).
	ReasonDatabaseRecreated = "DatabaseRecreated"
	// ReasonDatabaseLeft: the Database is deleted with deletionPolicy Delete, and its server ended before anything could
	// be dropped: the database is still on the server's volumes (Normal).
	ReasonDatabaseLeft = "DatabaseLeft"
	// ReasonFailureScenarioInvalid: the failure scenario that the Database carries doesn't parse and is ignored (Warning).
	ReasonFailureScenarioInvalid = "FailureScenarioInvalid"
)
