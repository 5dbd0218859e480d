package storetest

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// announce announces a member and returns what is wanted of it.
func (e *env) announce(member claim.Member) claim.Drain {
	e.Helper()
	wish, err := e.Roster.Announce(e.Context(), member)
	e.must("Announce", err)
	return wish
}

func (e *env) drain(member claim.Member, by, reason string, known bool) claim.Drain {
	e.Helper()
	wish, got, err := e.Roster.Drain(e.Context(), member, by, reason)
	e.must("Drain", err)
	want(e, "Drain knows "+member.ID, got, known)
	return wish
}

func (e *env) undrain(member claim.Member, known bool) {
	e.Helper()
	got, err := e.Roster.Undrain(e.Context(), member)
	e.must("Undrain", err)
	want(e, "Undrain knows "+member.ID, got, known)
}

// wished wants what the store says of a member.
func (e *env) wished(id string, wish claim.Drain) {
	e.Helper()
	members, err := e.Roster.Members(e.Context(), time.Hour)
	e.must("Members", err)
	for _, m := range members {
		if m.ID == id {
			want(e, "Drain of "+id, m.Drain, wish)
			return
		}
	}
	e.Fatalf("%s is no member", id)
}

func rosterDrain(e *env) {
	if e.Roster == nil {
		e.Skip("the backend has no roster here")
	}
	one, two := claim.Member{ID: "w1", Started: Epoch}, claim.Member{ID: "w2", Started: Epoch}
	want(e, "Wanted of a stranger", e.drain(one, "ana", "move", false).Wanted(), false)
	e.undrain(one, false)
	want(e, "Wanted at first", e.announce(one).Wanted(), false)
	e.announce(two)
	wish := claim.Drain{Since: Epoch, By: "ana", Reason: "a move | of hosts"}
	want(e, "the wish", e.drain(one, wish.By, wish.Reason, true), wish)
	e.advance(time.Second)
	wish.Reason = "another reason"
	want(e, "the wish, again: the note is new and the time is not", e.drain(one, wish.By, wish.Reason, true), wish)
	want(e, "what is wanted of it", e.announce(one), wish)
	want(e, "what is wanted of the other", e.announce(two).Wanted(), false)
	e.wished("w1", wish)
	e.wished("w2", claim.Drain{})
	for range 2 {
		e.undrain(one, true)
		want(e, "what is wanted after Undrain", e.announce(one).Wanted(), false)
	}
	e.drain(one, "", "", true)
	restarted := claim.Member{ID: "w1", Started: Epoch.Add(time.Minute)}
	want(e, "what is wanted of the next process of that name", e.announce(restarted).Wanted(), false)
	e.wished("w1", claim.Drain{})
	e.drain(one, "", "late, to the one before", true)
	want(e, "what is wanted of the next process still", e.announce(restarted).Wanted(), false)
	e.drain(restarted, "", "", true)
	e.must("Withdraw", e.Roster.Withdraw(e.Context(), "w1"))
	want(e, "what is wanted after Withdraw", e.announce(restarted).Wanted(), false)
	e.drain(restarted, "", "", true)
	e.advance(2 * time.Hour)
	_, err := e.Roster.Members(e.Context(), time.Hour) // forgets it
	e.must("Members", err)
	want(e, "what is wanted of one that was forgotten", e.announce(restarted).Wanted(), false)
}

func rosterHeed(e *env) {
	if e.Roster == nil || e.Waker == nil {
		e.Skip("the backend has no roster or no wake-ups here")
	}
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	wake, healthy, err := e.Roster.Heed(ctx)
	e.must("Heed", err)
	awaitHealthy(ctx, e, healthy)
	member := claim.Member{ID: "w1", Started: Epoch}
	e.announce(member)
	e.drain(member, "", "", true)
	awaitWake(ctx, e, wake, "Drain")
	e.undrain(member, true)
	awaitWake(ctx, e, wake, "Undrain")
}
