// Package connect builds Redis clients from configuration, for the worker and
// for programs that link neither the worker nor the demo.
package connect
