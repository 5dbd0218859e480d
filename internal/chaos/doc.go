// Package chaos runs real worker and admin processes against a real
// redis-server, hurts them, and judges what every scheduled time came to.
//
// The effects are seen from outside: each schedule posts to a server of the
// test, which notes the firing ID and the time. What the store says of its
// verdicts and runs is compared with an enumeration of the scheduled times.
package chaos
