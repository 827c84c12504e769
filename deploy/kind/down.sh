#!/bin/sh
# down.sh removes the cluster that up.sh made, with all that is in it. The images stay in Docker.
set -eu
command -v kind >/dev/null 2>&1 || {
	echo 'down: kind is missing' >&2
	exit 1
}
kind delete cluster --name databases
