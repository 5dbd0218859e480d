package admincli

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// definitionFlags are what create and update take of a definition.
type definitionFlags struct {
	specFlags
	taskType    string
	payload     string
	queue       string
	missed      string
	catchUp     string
	overlap     string
	bufferLimit int
	effect      string
	maxRetry    int
	timeout     string
	retention   string
	maxFailures int
	coolDown    string
	priority    int
	labels      []string
	headers     []string
	metadata    string
	except      []string
	only        []string
	description string
}

func (f *definitionFlags) register(cmd *cobra.Command) {
	f.specFlags.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.taskType, "type", "", "task type")
	flags.StringVar(&f.payload, "payload", "", "payload: JSON, @FILE, or - for standard input")
	flags.StringVar(&f.queue, "queue", "", "queue; default is "+schedule.DefaultQueue)
	flags.StringVar(&f.missed, "missed", "", "what becomes of missed times: latest, all or skip")
	flags.StringVar(&f.catchUp, "catch-up", "", "how far back missed times count; needed by --missed all")
	flags.StringVar(&f.overlap, "overlap", "", "while an earlier firing is open: allow, skip, buffer_one, buffer_all or cancel_other")
	flags.IntVar(&f.bufferLimit, "buffer-limit", 0, "with --overlap buffer_all: how many firings may wait; default is 100")
	flags.StringVar(&f.effect, "effect", "", "attempts whose fate is unknown: at_least_once or at_most_once")
	flags.IntVar(&f.maxRetry, "max-retry", schedule.DefaultMaxRetry, "retries after a failed attempt")
	flags.StringVar(&f.timeout, "timeout", "", "of one attempt of the task; default is 30m (calls to the store have 10s here)")
	flags.StringVar(&f.retention, "retention", "", "how long a finished task stays readable; default is 10m")
	flags.IntVar(&f.maxFailures, "max-failures", 0, "consecutive failures that disable the schedule; 0 is never")
	flags.StringVar(&f.coolDown, "cool-down", "", "after it was disabled, when one probe run is allowed")
	flags.IntVar(&f.priority, "priority", 0, "higher first among those due, -100 to 100")
	flags.StringArrayVar(&f.labels, "label", nil, "label, as k=v; may be repeated")
	flags.StringArrayVar(&f.headers, "header", nil, "header of the task, as k=v; may be repeated")
	flags.StringVar(&f.metadata, "metadata", "", "any JSON, kept and shown")
	flags.StringArrayVar(&f.except, "except", nil, "no firing inside: a calendar, dates such as 2026-12-24..2026-12-26, 'Sat 00:00-Mon 06:00' or 'cron E'; may be repeated")
	flags.StringArrayVar(&f.only, "only", nil, "firings only inside; as --except")
	flags.StringVar(&f.description, "description", "", "text for people")
}

// task writes the flags that were given, other than those of the spec, into a
// definition; what was not given stays as it is.
func (f *definitionFlags) task(s *session, flags *pflag.FlagSet, d *schedule.Schedule) error {
	set := func(name string, write func()) {
		if flags.Changed(name) {
			write()
		}
	}
	set("type", func() { d.Type = f.taskType })
	set("queue", func() { d.Queue = f.queue })
	set("missed", func() { d.Missed = schedule.Missed(f.missed) })
	set("overlap", func() { d.Overlap = schedule.Overlap(f.overlap) })
	set("buffer-limit", func() { d.BufferLimit = f.bufferLimit })
	set("effect", func() { d.Effect = schedule.Effect(f.effect) })
	set("max-retry", func() { d.MaxRetry = &f.maxRetry })
	set("max-failures", func() { d.MaxFailures = f.maxFailures })
	set("priority", func() { d.Priority = f.priority })
	set("description", func() { d.Description = f.description })
	err := errors.Join(durationInto(&d.CatchUp, "catch_up", f.catchUp), durationInto(&d.Timeout, "timeout", f.timeout),
		durationInto(&d.Retention, "retention", f.retention), durationInto(&d.CoolDown, "cool_down", f.coolDown),
		pairsInto(&d.Labels, "label", f.labels), headersInto(&d.Headers, f.headers),
		windowsInto(&d.Except, "except", f.except), windowsInto(&d.Only, "only", f.only))
	set("metadata", func() { err = errors.Join(err, metadataInto(d, f.metadata)) })
	if flags.Changed("payload") && err == nil {
		d.Payload, err = s.readPayload(f.payload, schedule.MaxPayload)
	}
	return err
}

// pairsInto sets the named labels and keeps the others.
func pairsInto(target *map[string]string, field string, pairs []string) error {
	if len(pairs) == 0 {
		return nil
	}
	named, err := parseLabels(field, pairs)
	if err != nil {
		return err
	}
	merge(target, named)
	return nil
}

// headersInto sets the named headers and keeps the others. A value may hold
// commas, unlike that of a label.
func headersInto(target *map[string]string, pairs []string) error {
	named := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return &schedule.FieldError{Field: "header", Value: pair, Allowed: "k=v, such as tenant=acme"}
		}
		named[name] = value
	}
	merge(target, named)
	return nil
}

// merge copies before it writes: the map belongs to what was read.
func merge(target *map[string]string, named map[string]string) {
	if len(named) == 0 {
		return
	}
	all := maps.Clone(*target)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, named)
	*target = all
}

func metadataInto(d *schedule.Schedule, text string) error {
	if !json.Valid([]byte(text)) {
		return &schedule.FieldError{Field: "metadata", Value: text, Allowed: `JSON, such as '{"owner": "billing"}'`}
	}
	d.Metadata = json.RawMessage(text)
	return nil
}

// windowsInto replaces the windows when any is given.
func windowsInto(target *[]schedule.Window, field string, texts []string) error {
	var all []schedule.Window
	for _, text := range texts {
		kind, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		switch {
		case kind == "":
			return &schedule.FieldError{Field: field, Value: text, Allowed: "the name of a calendar, dates, a weekly window or 'cron E'"}
		case kind == "calendar":
			all = append(all, schedule.Window{Calendar: strings.TrimSpace(rest)})
		case kind == "cron":
			all = append(all, schedule.Window{Cron: strings.TrimSpace(rest)})
		case kind[0] >= '0' && kind[0] <= '9':
			all = append(all, schedule.Window{Dates: strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })})
		case rest == "":
			all = append(all, schedule.Window{Calendar: kind})
		default:
			all = append(all, schedule.Window{Weekly: strings.TrimSpace(text)})
		}
	}
	if len(all) > 0 {
		*target = all
	}
	return nil
}
