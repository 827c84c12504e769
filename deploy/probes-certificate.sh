#!/bin/sh
# probes-certificate.sh makes the Secret databases-probes, unless it is there: a certificate for the probes, in the namespace of
# the program. It signs itself: kubelets, which ask the probes, check none. Delete the Secret and run it again for a new one;
# the program reads it within about a minute, without a restart.
set -eu
umask 077

namespace=databases

found=$(kubectl get secret databases-probes -n $namespace --ignore-not-found -o name)
[ -z "$found" ] || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=databases \
	-addext subjectAltName=DNS:databases.$namespace.svc -keyout "$folder/key.pem" -out "$folder/crt.pem" 2>"$folder/said" || {
	cat "$folder/said" >&2
	exit 1
}
cat "$folder/crt.pem" "$folder/key.pem" >"$folder/tls.pem"
kubectl create secret generic databases-probes -n $namespace --from-file="$folder/tls.pem"
