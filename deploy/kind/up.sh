#!/bin/sh
# up.sh starts a cluster of kind on this machine and in it, in the namespace databases, the program with PostgreSQL, an
# OpenTelemetry collector, Tempo, Prometheus and Grafana. It needs Docker, kind, kubectl and openssl, and can be run again at any
# time: then it builds the program anew and brings everything up to date. down.sh removes it all.
set -eu
umask 077
cd "$(dirname "$0")"

cluster=databases
namespace=databases
images='databases:dev databases-patroni:dev'

fail() {
	echo "up: $*" >&2
	exit 1
}

exists() {
	found=$(kubectl get "$@" --ignore-not-found -o name) || exit 1
	[ -n "$found" ]
}

# secret makes a Secret from files of the folder, unless it is there.
secret() {
	name=$1
	shift
	exists secret "$name" -n $namespace && return
	for key; do
		set -- "$@" "--from-file=$key=$folder/$name.$key"
		shift
	done
	kubectl create secret generic "$name" -n $namespace "$@"
}

password() { openssl rand -hex 24 | tr -d '\n'; }

# secrets makes each password once. They are in files of a folder that goes with this script, and in no argument.
secrets() {
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	trap 'exit 1' HUP INT TERM
	password >"$folder/postgres-superuser.password"
	password >"$folder/grafana-admin.password"
	password >"$folder/databases-admin.password"
	printf 'postgres://databases_admin:%s@postgres.%s.svc.cluster.local:5432/postgres?sslmode=disable' \
		"$(cat "$folder/databases-admin.password")" $namespace >"$folder/databases-admin.dsn"
	secret postgres-superuser password
	secret databases-admin dsn password # one for both sides, so that they can't differ
	secret grafana-admin password
	rm -rf "$folder"
}

for program in docker kind kubectl openssl; do
	command -v $program >/dev/null 2>&1 || fail "$program is missing"
done
docker info >/dev/null 2>&1 || fail "Docker doesn't answer: start it, and try docker info"

version=$(git -C ../.. describe --always --dirty --tags 2>/dev/null || true) # none without git
docker build -f ../../images/databases/Dockerfile --build-arg VERSION="$version" -t databases:dev ../..
docker build -f ../../images/databases-patroni/Dockerfile --build-arg VERSION="$version" -t databases-patroni:dev ../..
kind get clusters 2>/dev/null | grep -qx $cluster || kind create cluster --name $cluster --wait 2m
kind export kubeconfig --name $cluster # a cluster of an earlier run may not be in this kubeconfig
kubectl config use-context kind-$cluster >/dev/null
# shellcheck disable=SC2086 # a list of names
kind load docker-image --name $cluster $images

kubectl apply --server-side -f ../kustomize/base/namespace.yaml
secrets
../probes-certificate.sh
again=no
if exists deployment databases -n $namespace; then again=yes; fi
manifests=$(kubectl kustomize .)
printf '%s\n' "$manifests" | kubectl apply --server-side --force-conflicts -f - # also what somebody scaled by hand
[ $again = no ] || kubectl rollout restart deployment/databases -n $namespace # the image has another content under the same name
for deployment in postgres collector tempo prometheus grafana databases; do
	kubectl rollout status deployment/$deployment -n $namespace --timeout=5m || {
		kubectl get pods -n $namespace >&2
		kubectl logs -n $namespace deployment/$deployment --tail=20 >&2 || true
		fail "$deployment doesn't run: its log and the pods stand above"
	}
done
kubectl wait --for=condition=Established --timeout=1m crd/databases.postgres.example.com crd/databases.database.example.com >/dev/null

cat <<'TEXT'

Everything runs. Ask for a database and a role:

    kubectl apply -f deploy/kind/database.yaml
    kubectl get pgdb orders --watch

and look at what the program tells of it (user admin; the password is the first line):

    kubectl get secret grafana-admin -n databases -o go-template='{{.data.password | base64decode}}{{"\n"}}'
    kubectl port-forward -n databases service/grafana 3000

TEXT
