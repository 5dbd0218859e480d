//go:build !race

package storm

// slow tells that the race detector makes everything several times slower.
const slow = false
