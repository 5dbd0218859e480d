package admincli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

func newStats(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "Sum up the namespace: schedules, firings, lateness, workers",
		Example: `  admin stats
  admin stats -o json`,
		Args: arguments(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error { return s.stats() },
	}
}

// A statsJSON is what stats prints.
type statsJSON struct {
	Total      int64   `json:"total"`
	Active     int64   `json:"active"`
	Paused     int64   `json:"paused"`
	Disabled   int64   `json:"disabled"`
	Completed  int64   `json:"completed"`
	Due        int64   `json:"due"`
	Claimed    int64   `json:"claimed"`
	Open       int64   `json:"open"`
	Buffered   int64   `json:"buffered"`
	NextID     string  `json:"next_id"`
	NextAt     *string `json:"next_at"`
	NextAtMS   *int64  `json:"next_at_ms"`
	LatenessMS int64   `json:"lateness_ms"`
	Workers    int     `json:"workers"`
	Now        *string `json:"now"`
	NowMS      *int64  `json:"now_ms"`
}

func (s *session) stats() error {
	stores, err := s.store()
	if err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	stats, err := stores.Catalog.Stats(ctx)
	if err != nil {
		return err
	}
	members, err := stores.Roster.Members(ctx, workerMaxAge)
	if err != nil {
		return err
	}
	in := s.location(time.UTC)
	v := view{data: statsJSON{Total: stats.Total, Active: stats.Active, Paused: stats.Paused, Disabled: stats.Disabled,
		Completed: stats.Completed, Due: stats.Due, Claimed: stats.Claimed, Open: stats.Open, Buffered: stats.Buffered,
		NextID: string(stats.NextID), NextAt: iso(stats.NextAt, in), NextAtMS: millis(stats.NextAt),
		LatenessMS: stats.Lateness.Milliseconds(), Workers: len(members), Now: iso(stats.Now, in), NowMS: millis(stats.Now)}}
	if stats.NextID != "" {
		v.names = []string{string(stats.NextID)}
	}
	v.table = func(w io.Writer) {
		f := &sheet{}
		f.add("schedules", fmt.Sprintf("%d: %d active, %d paused, %d disabled, %d completed", stats.Total, stats.Active, stats.Paused, stats.Disabled, stats.Completed))
		f.add("firings", fmt.Sprintf("%d due, %d claimed, %d open, %d buffered", stats.Due, stats.Claimed, stats.Open, stats.Buffered))
		f.add("lateness", fine(max(0, stats.Lateness)))
		next := none
		if stats.NextID != "" {
			next = string(stats.NextID) + " " + when(stats.NextAt, stats.Now, in)
		}
		f.add("next", next)
		f.add("workers", fmt.Sprintf("%d alive", len(members)))
		f.write(w)
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if s.tabular() {
		s.footer(count(int(stats.Total), "schedule"))
	}
	return nil
}
