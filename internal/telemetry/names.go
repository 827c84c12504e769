package telemetry

import "go.opentelemetry.io/otel/attribute"

// The kinds of Database, the values of databases.kind.
const (
	KindShared    = "shared"
	KindDedicated = "dedicated"
)

// The attributes of our own.
const (
	keyKind   = attribute.Key("databases.kind")
	keyReason = attribute.Key("databases.ready.reason")
	keyReady  = attribute.Key("databases.ready")
	keyChange = attribute.Key("databases.change")
	// keyRefusal is the reason for which a claim was refused.
	keyRefusal = attribute.Key("databases.reason")
	// keyPlanned says whether the controller itself had moved or restarted the primary.
	keyPlanned = attribute.Key("databases.planned")
	// keyObject is the name of the object that is reconciled; saved queries know it by this one.
	keyObject = attribute.Key("humus.kube.object.name")
)

// The metrics of our own; docs and alert rules name them as Prometheus does, with underscores and units.
const (
	nameCount     = "databases.count"
	nameUnready   = "databases.unready.age.max"
	nameProvision = "databases.provision.duration"
	nameReady     = "databases.ready.duration"
	nameRoundTrip = "db.client.operation.duration" // OpenTelemetry's convention
	nameRepaired  = "databases.drift.repaired"
	nameRotations = "databases.password.rotations"
	nameRefused   = "databases.claims.refused"
	nameServerUp  = "databases.server.up"
	nameFailovers = "databases.failovers"
)

// noReason is the reason of a Database that has no condition Ready yet.
const noReason = "Pending"
