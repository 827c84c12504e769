// Package pki makes the certificates, keys and kubeconfigs of one cluster.
//
// Invariants:
//   - every key is made for one cluster, is readable by its owner only and is trusted by nothing else;
//   - etcd has an authority of its own, so that a certificate the cluster signs for a user does not open etcd;
//   - everything expires after Lifetime, a cluster for development being shorter-lived than that.
package pki
