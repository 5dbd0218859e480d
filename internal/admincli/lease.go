package admincli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A LeaseStore is the part of the leases that the commands use.
type LeaseStore interface {
	claim.LeaseLister
	Lookup(ctx context.Context, name string) (claim.LeaseInfo, bool, error)
	Release(ctx context.Context, lease claim.Lease) (bool, error)
}

func newLease(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "lease", Short: "Show who holds which lease, and take one away",
		Example: "  admin lease list\n  admin lease get main",
	}
	list := &cobra.Command{
		Use: "list", Short: "List the leases that were ever granted",
		Example: "  admin lease list\n  admin lease list -o json",
		Args:    arguments(0, 0, "nothing"),
		RunE:    func(*cobra.Command, []string) error { return s.listLeases() },
	}
	get := &cobra.Command{
		Use: "get NAME", Short: "Show who holds a lease",
		Example: "  admin lease get main",
		Args:    arguments(1, 1, "NAME"), ValidArgsFunction: s.completeLeases,
		RunE: func(_ *cobra.Command, args []string) error { return s.getLease(args[0]) },
	}
	cmd.AddCommand(s.watched(list), get, newLeaseRelease(s))
	return group(cmd)
}

func newLeaseRelease(s *session) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "release NAME", Short: "Take a lease away from its holder",
		Long: `End a lease now. Another process may take it at once; the holder notices at its
next renewal and stops what runs under it, so for that long both may run. On a
terminal it asks. Without a terminal it needs --yes, or it ends with exit code 3
and nothing is changed.`,
		Example: "  admin lease release main --yes",
		Args:    arguments(1, 1, "NAME"), ValidArgsFunction: s.completeLeases,
		RunE: func(_ *cobra.Command, args []string) error { return s.releaseLease(args[0], yes) },
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// A leaseJSON is what the commands print for one lease.
type leaseJSON struct {
	Name    string  `json:"name"`
	Held    bool    `json:"held"`
	Owner   string  `json:"owner"`
	Token   string  `json:"token"` // as text: it has more digits than many JSON readers keep
	Until   *string `json:"until"`
	UntilMS *int64  `json:"until_ms"`
}

func (s *session) leaseJSON(info claim.LeaseInfo) leaseJSON {
	in := s.location(time.UTC)
	view := leaseJSON{Name: info.Name, Held: info.Owner != "", Owner: info.Owner, Until: iso(info.Until, in), UntilMS: millis(info.Until)}
	if view.Held {
		view.Token = info.Token.String()
	}
	return view
}

// leases reads all leases.
func (s *session) leases() ([]claim.LeaseInfo, error) {
	stores, err := s.store()
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.call()
	defer cancel()
	return stores.Leases.List(ctx)
}

func (s *session) listLeases() error {
	all, err := s.leases()
	if err != nil {
		return err
	}
	views, v := []leaseJSON{}, view{}
	for _, info := range all {
		views, v.names = append(views, s.leaseJSON(info)), append(v.names, info.Name)
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(all) == 0 {
			return
		}
		t := newTable("NAME", "STATE", "OWNER", "TOKEN", "UNTIL")
		for _, info := range all {
			owner, token := none, none
			if info.Owner != "" {
				owner, token = info.Owner, info.Token.String()
			}
			t.addCells(cell{text: info.Name}, leaseState(info), cell{text: owner}, cell{text: token},
				cell{text: when(info.Until, s.env.Now(), s.location(time.UTC))})
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if s.tabular() {
		s.footer(count(len(all), "lease"))
	}
	return nil
}

func leaseState(info claim.LeaseInfo) cell {
	if info.Owner == "" {
		return cell{"free", dim}
	}
	return cell{"held", green}
}

// findLease returns a lease that was ever granted.
func (s *session) findLease(name string) (claim.LeaseInfo, error) {
	all, err := s.leases()
	if err != nil {
		return claim.LeaseInfo{}, err
	}
	var names []string
	for _, info := range all {
		if info.Name == name {
			return info, nil
		}
		names = append(names, info.Name)
	}
	near := didYouMean(name, names)
	if near == "" {
		near = "; see admin lease list"
	}
	return claim.LeaseInfo{}, codedErrorf(exitNotFound, "lease %q was never granted in this namespace%s", clip(name, 60), near)
}

func (s *session) getLease(name string) error {
	info, err := s.findLease(name)
	if err != nil {
		return err
	}
	return s.emit(view{data: s.leaseJSON(info), names: []string{name}, table: func(w io.Writer) {
		state := leaseState(info)
		fmt.Fprintf(w, "%s  %s\n", visible(name), paint(state.text, state.color, s.painted(s.env.Terminal.Stdout)))
		if info.Owner == "" {
			return
		}
		f := &sheet{}
		f.add("owner", info.Owner)
		f.add("token", info.Token.String())
		f.add("until", when(info.Until, s.env.Now(), s.location(time.UTC)))
		f.write(w)
	}})
}

// A leaseReleaseJSON is what release prints.
type leaseReleaseJSON struct {
	Name   string `json:"name"`
	Action string `json:"action"` // released, or free: nobody held it
	Owner  string `json:"owner"`  // who lost it
	Token  string `json:"token"`
}

func (s *session) releaseLease(name string, yes bool) error {
	info, err := s.findLease(name)
	if err != nil {
		return err
	}
	result, line := leaseReleaseJSON{Name: name, Action: "free"}, name+" is free already; nothing was changed"
	if info.Owner != "" {
		if err := s.confirmRelease(info, yes); err != nil {
			return err
		}
		ctx, cancel := s.call()
		defer cancel()
		// Only the tenure that was shown is ended.
		released, err := s.stores.Leases.Release(ctx, claim.Lease{Name: name, Owner: info.Owner, Token: info.Token})
		if err != nil {
			return err
		}
		if !released {
			return codedErrorf(exitConflict, "lease %q changed hands meanwhile; nothing was changed: look again with admin lease get", name)
		}
		result = leaseReleaseJSON{Name: name, Action: "released", Owner: info.Owner, Token: info.Token.String()}
		line = "released " + name + "; " + info.Owner + " stops at its next renewal"
	}
	return s.emit(view{data: result, names: []string{name}, table: func(w io.Writer) { fmt.Fprintln(w, visible(line)) }})
}

// confirmRelease says who loses the lease and asks.
func (s *session) confirmRelease(info claim.LeaseInfo, yes bool) error {
	if yes {
		return nil
	}
	if !s.env.Terminal.Stdin || !s.env.Terminal.Stderr {
		return codedErrorf(exitDeclined, "releasing lease %q needs --yes without a terminal; nothing was changed", info.Name)
	}
	fmt.Fprintf(s.err, "%s", visible(fmt.Sprintf("take %s away from %s, which holds it until %s? [y/N] ", info.Name, info.Owner,
		when(info.Until, s.env.Now(), s.location(time.UTC)))))
	return s.answered("y", "declined; nothing was changed")
}

// completeLeases offers the leases that exist.
func (s *session) completeLeases(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.offer(cmd, args, prefix, func(add func(name, about string)) error {
		all, err := s.leases()
		for _, info := range all {
			add(info.Name, info.Owner)
		}
		return err
	})
}
