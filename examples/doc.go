// Package examples holds small programs that use Belfry. Its test builds them.
package examples
