#!/bin/sh
# deploy.sh puts the program into the cluster of the kubeconfig that kubectl uses, or brings it to this checkout's version:
# `make deploy` with
#
#   IMG          the program's image (databases:dev)
#   PATRONI_IMG  the image that brings Patroni into servers' pods (databases-patroni:dev)
#   OVERLAY      a folder beside this file's kustomize/: shared-server, or nothing
#
# It can be run again at any time.
set -eu
cd "$(dirname "$0")"

img=${IMG:-databases:dev}
patroni_img=${PATRONI_IMG:-databases-patroni:dev}
overlay=kustomize${OVERLAY:+/$OVERLAY}
namespace=databases
timeout=${TIMEOUT:-120s}

fail() {
	echo "deploy: $*" >&2
	exit 1
}

# apply takes back what others have set of our fields: kubectl rollout undo and kubectl scale do.
apply() { kubectl apply --server-side --force-conflicts "$@"; }

exists() {
	found=$(kubectl get "$@" --ignore-not-found -o name) || exit 1
	[ -n "$found" ]
}

# with_images puts the images into the manifests that it reads.
with_images() {
	sed -e "s|^\( *\)image: databases:dev\$|\1image: $img|" -e "s|^\( *\)value: databases-patroni:dev\$|\1value: $patroni_img|"
}

# explain shows why the pods don't start.
explain() {
	kubectl get pods -n $namespace -l app.kubernetes.io/name=databases >&2 || true
	kubectl get events -n $namespace --field-selector type=Warning --sort-by=.lastTimestamp 2>/dev/null | tail -n 5 >&2
	kubectl logs -n $namespace -l app.kubernetes.io/name=databases --prefix --tail=10 >&2 || true
	fail "the program doesn't run after $timeout: its pods, the last warnings and the end of their logs stand above"
}

for program in kubectl openssl; do
	command -v $program >/dev/null 2>&1 || fail "$program is missing"
done
for image in "$img" "$patroni_img"; do
	case $image in
	'' | *[!A-Za-z0-9._:/@-]*) fail "\"$image\" isn't an image reference, as registry.example/databases:1.0" ;;
	esac
done
[ -f "$overlay/kustomization.yaml" ] || fail "OVERLAY=$OVERLAY: there is no deploy/$overlay; leave it out, or say shared-server"
kubectl version >/dev/null 2>&1 || fail "kubectl reaches no cluster: set KUBECONFIG, and try kubectl version"

apply -f kustomize/base/namespace.yaml
if [ "${OVERLAY:-}" = shared-server ]; then
	for needed in secret/databases-admin configmap/databases-shared-server; do
		exists $needed -n $namespace || fail "$needed is missing in the namespace $namespace; docs/deploy.md has the commands that make it"
	done
fi
./probes-certificate.sh
manifests=$(kubectl kustomize "$overlay")
printf '%s\n' "$manifests" | with_images | apply -f -
kubectl wait --for=condition=Established --timeout="$timeout" \
	crd/databases.postgres.example.com crd/databases.database.example.com >/dev/null
kubectl rollout status deployment/databases -n $namespace --timeout="$timeout" || explain

cat <<'TEXT'

The program runs. Ask it for a PostgreSQL server of your own:

    kubectl apply -f deploy/examples/dedicated.yaml
    kubectl get pgserver --watch

TEXT
if [ "${OVERLAY:-}" = shared-server ]; then
	cat <<'TEXT'
or for a database on the shared server:

    kubectl apply -f deploy/examples/shared.yaml
    kubectl get pgdb --watch
TEXT
else
	echo 'Databases on a server that you have already (pgdb) need its address and login: docs/deploy.md.'
fi
