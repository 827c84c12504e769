// Package health serves the kubelet's probes over HTTPS: /healthz for liveness and /readyz for readiness.
//
// The manager of controller-runtime has a probe server of its own, but it speaks plain HTTP only; its checks are used here.
//
// Invariants:
//   - A certificate that is replaced in its file is served without a restart; one that can't be used leaves the last good
//     one in service.
//   - No answer says more than which check failed, and why in fixed words.
//   - Liveness depends on nothing outside the process: a restart mends no API server and no PostgreSQL.
package health
