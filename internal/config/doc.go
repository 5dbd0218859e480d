// Package config turns the environment into the typed, checked configuration
// of the worker.
//
// Every setting is one field of [Worker] with its variable, default, bounds
// and explanation as tags; docs/CONFIGURATION.md is rendered from the same
// tags. [Load] reports everything that is wrong at once, and no message holds
// a password. Configuration ends at internal/app: the packages below it get
// their own options.
package config
