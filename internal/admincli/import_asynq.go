package admincli

import (
	"slices"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newImportAsynq(s *session) *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use: "asynq FILE|DIR|-...", Short: "Import periodic task configurations of asynq",
		Long: `Import YAML files of an asynq PeriodicTaskManager: a list under configs, with
cronspec and task_type. The names queue, payload, max_retry, timeout and retention
are taken as asynq's options of that name, anything else is left out. Without a
zone asynq's scheduler is in UTC; give --tz when its Location was set. A task that
names no max_retry gets 25, which is asynq's default. Names are made of the task
type and a hash, so that importing again finds them.

` + importHelp,
		Example: "  admin import asynq asynq.yml --print",
		Args:    arguments(1, -1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			return s.importFrom(f, f.readAsynq, []string{".yml", ".yaml"}, args)
		},
	}
	f.register(cmd)
	return cmd
}

// asynqRetries is how often asynq retries a task that does not say.
const asynqRetries = 25

var asynqKeys = []string{"cronspec", "task_type", "queue", "payload", "max_retry", "timeout", "retention"}

func (f *importFlags) readAsynq(name string, text []byte) ([]found, []string, error) {
	documents, err := readForeign(name, text)
	if err != nil {
		return nil, nil, err
	}
	var all []found
	for _, document := range documents {
		configs := document
		if inner, ok := document.get("configs"); ok {
			configs = inner
		}
		list, ok := configs.value.([]foreignNode)
		if !ok {
			return nil, nil, fileProblem(document.at, "allowed: configs: with a list of cronspec and task_type")
		}
		for _, config := range list {
			all = append(all, f.asynqConfig(config))
		}
	}
	return all, nil, nil
}

func (f *importFlags) asynqConfig(config foreignNode) found {
	spec, taskType := config.textAt("cronspec"), config.textAt("task_type")
	out := found{at: config.at, what: taskType + " " + spec}
	if spec == "" || taskType == "" {
		out.refuse("cronspec and task_type are needed")
		return out
	}
	out.definition = schedule.Schedule{Type: taskType, Queue: config.textAt("queue")}
	out.carry("type: %s", taskType)
	out.robfigSpec(spec, f.zone)
	if len(out.definition.Specs) > 0 && out.definition.Specs[0].Cron != "" && out.definition.Timezone == "" {
		out.carry("timezone: UTC, asynq's default")
	}
	out.asynqOptions(config)
	text, err := marshal(config)
	if err != nil {
		out.refuse("%s", err)
	}
	out.definition.ID = hashedName(taskType, string(text))
	return out
}

func (out *found) asynqOptions(config foreignNode) {
	retries := asynqRetries
	if text := config.textAt("max_retry"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			out.refuse("max_retry %q is no number", text)
		}
		retries = n
	}
	out.definition.MaxRetry = &retries
	out.carry("max_retry: %d", retries)
	for _, field := range []struct {
		key    string
		target *time.Duration
	}{{"timeout", &out.definition.Timeout}, {"retention", &out.definition.Retention}} {
		text := config.textAt(field.key)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			out.refuse("%s %q is no duration of Go such as 30m", field.key, text)
			continue
		}
		*field.target = d
		out.carry("%s: %s", field.key, schedule.FormatDuration(d))
	}
	if out.definition.Queue != "" {
		out.carry("queue: %s", out.definition.Queue)
	}
	if payload, ok := config.get("payload"); ok {
		out.asynqPayload(payload)
	}
	for _, key := range config.keys() {
		if !slices.Contains(asynqKeys, key) {
			out.leave("%s", key)
		}
	}
}

// asynqPayload keeps text byte by byte, since asynq payloads are bytes, and
// writes anything else as JSON.
func (out *found) asynqPayload(payload foreignNode) {
	if text, ok := payload.value.(string); ok {
		out.definition.Payload = []byte(text)
	} else {
		content, err := marshal(payload)
		if err != nil {
			out.refuse("payload: %s", err)
			return
		}
		out.definition.Payload = content
	}
	out.carry("payload")
}
