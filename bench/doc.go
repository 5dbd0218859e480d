// Package bench measures whole paths, each beside its limit in the same run:
// these numbers mean nothing apart from the machine, the ratios do.
package bench
