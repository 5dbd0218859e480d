// Package repolint holds the house rules as tests. Each rule says why it is
// there; change a rule together with the code that needs it changed.
package repolint
