package dedicated

import (
	"fmt"
	"strconv"
	"strings"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/ownership"
)

const (
	appLabel      = "app"
	appValue      = "database"
	databaseLabel = "database"
	// roleLabel is set on the pods by Patroni.
	roleLabel   = "role"
	rolePrimary = "primary"
	roleReplica = "replica"

	// volumeName is the name of the claim template, and so the beginning of the claims' names.
	volumeName = "data"
	// maxReplicas is the API's limit.
	maxReplicas = 10

	restPort = 8008
)

// The suffixes of the names of a Database's objects; the StatefulSet and the primary's Service have none.
const (
	suffixPods      = "-pods"
	suffixReadOnly  = "-ro"
	suffixSuperuser = "-superuser"
	suffixInspect   = "-inspect"
)

// storeSuffixes name the ConfigMaps of Patroni's store.
var storeSuffixes = []string{suffixConfig, suffixLeader, suffixSync, "-failover"}

const (
	suffixConfig = "-config"
	suffixLeader = "-leader"
	suffixSync   = "-sync"
)

// selectorLabels select the pods of a Database.
func selectorLabels(db *databasev1.Database) map[string]string {
	return map[string]string{appLabel: appValue, databaseLabel: db.Name}
}

// childLabels are on every object of a Database.
func childLabels(db *databasev1.Database) map[string]string {
	labels := selectorLabels(db)
	labels[ownership.ManagedByLabel] = ownership.ManagedByValue
	return labels
}

func podName(db *databasev1.Database, ordinal int) string {
	return fmt.Sprintf("%s-%d", db.Name, ordinal)
}

func claimName(db *databasev1.Database, ordinal int) string {
	return volumeName + "-" + podName(db, ordinal)
}

// ordinal is the number at the end of a pod's or a claim's name; -1 where there is none.
func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// host is the name by which clients reach the primary.
func host(db *databasev1.Database) string { return db.Name + "." + db.Namespace + ".svc.cluster.local" }

func endpointOf(db *databasev1.Database) string {
	return fmt.Sprintf("%s:%d", host(db), databasev1.Port)
}
