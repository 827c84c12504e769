#!/bin/sh
# undeploy.sh removes what deploy.sh made: `make undeploy`. It refuses while there are Databases: the program must be there
# when they are deleted, and without their kinds they would all be gone.
set -eu

namespace=databases
kinds='databases.postgres.example.com databases.database.example.com'

fail() {
	echo "undeploy: $*" >&2
	exit 1
}

exists() {
	found=$(kubectl get "$@" --ignore-not-found -o name) || exit 1
	[ -n "$found" ]
}

# databases lists all Databases, a line each.
databases() {
	for kind in $kinds; do
		exists crd "$kind" || continue
		kubectl get "$kind" -A -o go-template='{{range .items}}  {{.metadata.namespace}}/{{.metadata.name}} ('"$kind"'){{if .metadata.deletionTimestamp}} is being deleted{{end}}{{"\n"}}{{end}}' || exit 1
	done
}

refuse_databases() {
	left=$(databases)
	[ -n "$left" ] || return 0
	printf '%s\n' "$left" >&2
	cat >&2 <<'TEXT'
undeploy: these Databases are still there. Delete them while the program runs:
    kubectl delete pgserver NAME -n NAMESPACE     (volumes stay, unless spec.deletionPolicy is Delete)
    kubectl delete pgdb NAME -n NAMESPACE         (role and database stay, unless spec.deletionPolicy is Delete)
If one stays "being deleted", `kubectl describe` says what it waits for. Then run this again.
TEXT
	exit 1
}

# foreign lists what is in the namespace and isn't ours.
foreign() {
	exists namespace/$namespace || return 0
	found=$(kubectl get all,secrets,configmaps,persistentvolumeclaims -n $namespace -o name) || exit 1
	printf '%s\n' "$found" | grep -vx configmap/kube-root-ca.crt || true
}

delete() { kubectl delete --ignore-not-found "$@"; }

command -v kubectl >/dev/null 2>&1 || fail 'kubectl is missing'
kubectl version >/dev/null 2>&1 || fail "kubectl reaches no cluster: set KUBECONFIG, and try kubectl version"
refuse_databases

delete deployment/databases -n $namespace --cascade=foreground
delete poddisruptionbudget/databases networkpolicy/databases rolebinding/databases-lease role/databases-lease \
	serviceaccount/databases secret/databases-probes -n $namespace
delete lease/databases-controller -n $namespace # the program made it
delete configmap -n $namespace -l app.kubernetes.io/part-of=databases # the settings, present and earlier ones
delete clusterrolebinding/databases clusterrole/databases \
	clusterrolebinding/databases-owner-enforcement clusterrole/databases-owner-enforcement
left=$(foreign)
if [ -z "$left" ]; then
	delete namespace $namespace
else
	printf '%s\n' "$left"
	echo "undeploy: the namespace $namespace stays, for it holds these, which deploy didn't make; kubectl delete namespace $namespace removes them too."
fi
refuse_databases # that were made meanwhile
for kind in $kinds; do
	delete "crd/$kind"
done
