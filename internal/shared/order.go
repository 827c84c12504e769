//go:build !brokenorder

package shared

// finalizerFirst: the finalizer is written before any SQL is sent. The build tag brokenorder turns it around, for the
// crash sweep to show that it notices.
const finalizerFirst = true
