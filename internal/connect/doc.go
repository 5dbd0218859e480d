// Package connect builds Redis clients from configuration, for programs that
// link neither the worker nor the demo.
package connect
