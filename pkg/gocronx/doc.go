// Package gocronx gives users of gocron v2 Belfry's cron engine, and lets one
// of many schedulers run a job.
//
// gocron's own engine skips a job whose time falls into the hour that a clock
// change takes away, and runs a fixed time twice in the hour that one gives.
// A [Cron] runs such a job once, at the instant that the change moves it to;
// see the rules in package schedule.
//
// An [Elector] makes one process the leader, which runs all jobs. A [Locker]
// decides for each run of each job; it needs clocks that agree better than its
// Hold. Both work on any claim.Leases, such as those of package redisstore.
// Neither can stop a job whose process stood still until another took over:
// such a job passes Token along to what it writes to.
package gocronx
