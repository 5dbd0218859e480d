// Package gocronx gives users of gocron v2 Belfry's cron engine.
//
// gocron's own engine skips a job whose time falls into the hour that a clock
// change takes away, and runs a fixed time twice in the hour that one gives.
// A [Cron] runs such a job once, at the instant that the change moves it to;
// see the rules in package schedule.
package gocronx
