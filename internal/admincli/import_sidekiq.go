package admincli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newImportSidekiq(s *session) *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use: "sidekiq-cron FILE|DIR|-...", Short: "Import the schedule file of sidekiq-cron",
		Long: `Import YAML files of sidekiq-cron: jobs by name, or a list of jobs. The class
becomes the task type and the arguments the payload, a JSON list; a handler of
that type has to be there. A job whose cron line has no zone fires in that of the
Ruby process, which the file does not say: give --tz for those.

` + importHelp,
		Example: "  admin import sidekiq-cron sidekiq.yml --tz Europe/Paris --print",
		Args:    arguments(1, -1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			return s.importFrom(f, f.readSidekiq, []string{".yml", ".yaml"}, args)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *importFlags) readSidekiq(name string, text []byte) ([]found, []string, error) {
	documents, err := readForeign(name, text)
	if err != nil {
		return nil, nil, err
	}
	var all []found
	for _, document := range documents {
		if list, ok := document.value.([]foreignNode); ok {
			for _, job := range list {
				all = append(all, f.sidekiqJob(job.textAt("name"), job))
			}
			continue
		}
		if len(document.keys()) == 0 {
			return nil, nil, fileProblem(document.at, "allowed: jobs by name, or a list of jobs")
		}
		for _, key := range document.keys() {
			job, _ := document.get(key)
			all = append(all, f.sidekiqJob(key, job))
		}
	}
	return all, nil, nil
}

// sidekiqKeys are those of a job that are carried over, or looked at.
var sidekiqKeys = []string{"name", "cron", "class", "klass", "queue", "args", "status", "description", "retry", "active_job",
	"queue_name_prefix", "queue_name_delimiter", "date_as_argument"}

func (f *importFlags) sidekiqJob(name string, job foreignNode) found {
	out := found{at: job.at, what: name}
	class := job.textAt("class")
	if class == "" {
		class = job.textAt("klass")
	}
	out.definition = schedule.Schedule{ID: schedule.ID(strings.ReplaceAll(name, " ", "-")), Type: class, Queue: job.textAt("queue"),
		Description: job.textAt("description")}
	if class == "" {
		out.refuse("no class, which becomes the task type")
		return out
	}
	if id := out.definition.ID; string(id) != name {
		out.carry("id: %s", id)
	}
	out.carry("type: %s", class)
	out.fugitSpec(job.textAt("cron"), f.zone)
	out.sidekiqArgs(job)
	if job.textAt("status") == "disabled" {
		out.definition.Paused = true
		out.carry("paused: true")
	}
	if out.definition.Queue != "" {
		out.carry("queue: %s", out.definition.Queue)
	}
	out.sidekiqRest(job)
	return out
}

// fugitSpec carries over a cron line with a zone behind it. Words such as
// "every 5 minutes" are not read: what they mean depends on settings.
func (out *found) fugitSpec(text, zone string) {
	fields := strings.Fields(text)
	if n := len(fields); n == 6 || n == 7 {
		if _, err := specZone(fields[n-1]); err == nil && strings.ContainsAny(fields[n-1], "/UZ") {
			zone, fields = fields[n-1], fields[:n-1]
		}
	}
	if zone == "" {
		out.refuse("no time zone in %q: give --tz, that of the Ruby process", text)
		return
	}
	out.definition.Timezone = zone
	if len(fields) == 1 && slices.Contains(macros, fields[0]) {
		out.cron(fields[0])
		return
	}
	expression, err := fugit.translate(fields)
	if err != nil {
		out.refuse("cron %q: %s", text, err)
		return
	}
	out.cron(expression)
}

// sidekiqArgs makes the payload: Sidekiq hands a list of arguments over, and
// puts anything else into one.
func (out *found) sidekiqArgs(job foreignNode) {
	args, ok := job.get("args")
	if !ok {
		return
	}
	var value any = args
	if _, list := args.value.([]foreignNode); !list {
		value = []any{args}
	}
	payload, err := marshal(value)
	if err != nil {
		out.refuse("args: %s", err)
		return
	}
	out.definition.Payload = payload
	out.carry("payload: args")
}

func (out *found) sidekiqRest(job foreignNode) {
	if text := job.textAt("retry"); text != "" {
		if n, err := strconv.Atoi(text); err == nil {
			out.definition.MaxRetry = &n
			out.carry("max_retry: %d", n)
		} else {
			out.leave("retry %s: the number of retries is in the Ruby code", text)
		}
	}
	if job.textAt("active_job") == "true" {
		out.leave("active_job: its envelope around the arguments")
	}
	if prefix := job.textAt("queue_name_prefix"); prefix != "" {
		out.refuse("queue_name_prefix %s: the queue depends on the Ruby configuration", prefix)
	}
	if job.textAt("date_as_argument") == "true" {
		out.refuse("date_as_argument: the payload is fixed here; handlers get the scheduled time with the firing")
	}
	for _, key := range job.keys() {
		if !slices.Contains(sidekiqKeys, key) {
			out.leave("%s", key)
		}
	}
}
