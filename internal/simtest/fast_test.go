//go:build !race

package simtest

// slow tells that the race detector makes everything several times slower.
const slow = false
