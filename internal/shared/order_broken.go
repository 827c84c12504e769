//go:build brokenorder

package shared

const finalizerFirst = false
