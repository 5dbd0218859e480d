package schedule

import "time"

// MaxTriggerPayload bounds the payload of a trigger, in bytes. It is carried
// in the record of the firing, which every report of its run reads and writes:
// so it is a quarter of what a definition may have.
const MaxTriggerPayload = 64 << 10

// TriggerOptions refine Trigger. The zero value draws a request ID and runs
// what the definition says, beside whatever is open.
type TriggerOptions struct {
	RequestID   string
	ObeyOverlap bool // apply the schedule's overlap policy instead of running regardless
	// Overlap is applied to this firing instead of the schedule's own policy; ""
	// is OverlapAllow. It cannot be combined with ObeyOverlap. With
	// OverlapCancelOther the firing runs when all that were open have ended.
	Overlap Overlap
	// Payload is handed to the handler instead of the definition's, at most
	// MaxTriggerPayload bytes; nil: the definition's. One that is empty and not
	// nil hands over nothing.
	Payload []byte
	// ScheduledAt is the scheduled time that the firing stands for, cut to whole
	// milliseconds; zero: none. Handlers see it; nothing else comes of it, whether
	// it is a scheduled time of the schedule or not.
	ScheduledAt time.Time
}

// Validate returns all *FieldErrors of the options, joined with errors.Join, or
// nil. It does not look at RequestID while that is empty.
func (o TriggerOptions) Validate() error {
	p := &problems{}
	if o.RequestID != "" {
		p.add(ValidateRequestID(o.RequestID))
	}
	if o.Overlap != "" {
		oneOf(p, "overlap", o.Overlap, OverlapAllow, OverlapSkip, OverlapBufferOne, OverlapBufferAll, OverlapCancelOther)
	}
	if o.Overlap != "" && o.ObeyOverlap {
		p.refuse("overlap", string(o.Overlap), "none beside obey_overlap, which is the schedule's own policy")
	}
	if len(o.Payload) > MaxTriggerPayload {
		p.refuse("payload", itoa(len(o.Payload))+" bytes", "at most "+itoa(MaxTriggerPayload)+" bytes")
	}
	if at := o.ScheduledAt; !at.IsZero() && (at.UnixMilli() < 1 || at.UnixMilli() > maxMillis) {
		p.refuse("scheduled_at", at.UTC().Format(time.RFC3339Nano), "an instant in the years 1970 to 9999")
	}
	return p.join()
}

// TriggerResult says what Trigger did.
type TriggerResult struct {
	FiringID  string
	Queue     string
	Duplicate bool // the request ID had been used; FiringID is that firing
	// Differs is set with Duplicate when the first call asked for another payload
	// or scheduled time. What it asked for stands.
	Differs  bool
	Buffered bool // waits for an open firing (buffer_one, buffer_all)
	Refused  bool // the overlap policy forbids it now; nothing was opened
}
