package admincli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newImportKubernetes(s *session) *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use: "kubernetes FILE|DIR|-...", Short: "Import Kubernetes CronJobs",
		Long: `Import the CronJobs of YAML files, as kubectl get cronjobs -o yaml writes them. What
runs is a task of the type that --type names: a handler of yours has to do what
the container did. Its image, command, arguments and variables are kept as
metadata. With --type exec the task runs the command itself, with the arguments,
variables and directory that stand in the file; what stands in the image, in
secrets or in config maps is reported, and a command without an absolute path is
left out.

A CronJob without timeZone fires in the zone of the cluster's controller, which the
file does not say: give --tz for those.

` + importHelp,
		Example: `  admin import kubernetes cronjobs.yaml --type report:build --tz UTC --print
  admin import kubernetes cronjobs.yaml --type exec --tz UTC --print
  admin import kubernetes k8s --type report:build --tz UTC --print`,
		Args: arguments(1, -1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.taskType == "" {
				return usageErrorf("--type is missing: the task type whose handler does what the container did")
			}
			return s.importFrom(f, f.readKubernetes, []string{".yaml", ".yml", ".json"}, args)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.taskType, "type", "", "task type (needed)")
	return cmd
}

func (f *importFlags) readKubernetes(name string, text []byte) ([]found, []string, error) {
	documents, err := readForeign(name, text)
	if err != nil {
		return nil, nil, err
	}
	var all []found
	others := 0
	var visit func(foreignNode)
	visit = func(node foreignNode) {
		if items, ok := node.get("items"); ok {
			list, _ := items.value.([]foreignNode)
			for _, item := range list {
				visit(item)
			}
			return
		}
		if node.textAt("kind") != "CronJob" {
			others++
			return
		}
		all = append(all, f.cronJob(node))
	}
	for _, document := range documents {
		visit(document)
	}
	var remarks []string
	if others > 0 {
		remarks = append(remarks, count(others, "object")+" of another kind than CronJob left out")
	}
	programs := map[string]bool{}
	for _, one := range all {
		if one.refused == "" && one.program != "" {
			programs[one.program] = true
		}
	}
	if len(programs) > 0 {
		remarks = append(remarks, "workers run these only when BELFRY_EXEC_ALLOW has "+strings.Join(slices.Sorted(maps.Keys(programs)), ","))
	}
	return all, remarks, nil
}

// cronJobKeys are those of a CronJob's spec that cronJob looks at.
var cronJobKeys = []string{"schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "suspend", "jobTemplate"}

func (f *importFlags) cronJob(node foreignNode) found {
	name := node.textAt("metadata", "name")
	out := found{at: node.at, what: name}
	if version := node.textAt("apiVersion"); version != "batch/v1" && version != "batch/v1beta1" {
		out.refuse("apiVersion %q is not known: batch/v1 is", version)
	}
	if namespace := node.textAt("metadata", "namespace"); namespace != "" {
		name = namespace + "." + name
		out.what = namespace + "/" + out.what
	}
	spec, _ := node.get("spec")
	zone := spec.textAt("timeZone")
	if zone == "" {
		zone = f.zone
	}
	if zone == "" {
		out.refuse("no timeZone: give --tz, that of the cluster's controller")
	}
	out.definition = schedule.Schedule{ID: schedule.ID(name), Type: f.taskType}
	out.robfigSpec(spec.textAt("schedule"), zone)
	out.cronJobPolicies(spec)
	out.cronJobLabels(node)
	out.cronJobTemplate(spec)
	for _, key := range spec.keys() {
		if !slices.Contains(cronJobKeys, key) {
			out.leave("%s: tasks have a retention instead of a history of jobs", key)
		}
	}
	return out
}

func (out *found) cronJobPolicies(spec foreignNode) {
	d := &out.definition
	switch policy := spec.textAt("concurrencyPolicy"); policy {
	case "", "Allow":
		d.Overlap = schedule.OverlapAllow
	case "Forbid":
		d.Overlap = schedule.OverlapSkip
	case "Replace":
		d.Overlap = schedule.OverlapCancelOther
	default:
		out.refuse("concurrencyPolicy %q is not known", policy)
	}
	out.carry("overlap: %s", d.Overlap)
	d.Missed = schedule.MissedLatest
	if text := spec.textAt("startingDeadlineSeconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 || seconds > int((365*24*time.Hour).Seconds()) {
			out.refuse("startingDeadlineSeconds %s: allowed: 1 second to a year; 0 never fires", text)
			return
		}
		d.CatchUp = time.Duration(seconds) * time.Second
		out.carry("catch_up: %s", schedule.FormatDuration(d.CatchUp))
	}
	if spec.textAt("suspend") == "true" {
		d.Paused = true
		out.carry("paused: true")
	}
}

// cronJobLabels keeps the labels that are labels here, too.
func (out *found) cronJobLabels(node foreignNode) {
	labels, _ := node.get("metadata", "labels")
	for _, key := range labels.keys() {
		value := labels.textAt(key)
		probe := schedule.Schedule{ID: "probe", Type: "probe", Expression: "@daily", Labels: map[string]string{key: value}}
		if probe.Validate() != nil {
			out.leave("label %s: not a label here", key)
			continue
		}
		merge(&out.definition.Labels, probe.Labels)
	}
	if len(out.definition.Labels) > 0 {
		out.carry("labels: %s", pairs(out.definition.Labels))
	}
}

// cronJobTemplate looks at what ran.
func (out *found) cronJobTemplate(spec foreignNode) {
	job, _ := spec.get("jobTemplate", "spec")
	for _, key := range job.keys() {
		if key != "template" && key != "backoffLimit" {
			out.leave("%s of the job", key)
		}
	}
	out.jobRetries(job)
	pod, _ := job.get("template", "spec")
	for _, key := range pod.keys() {
		if !slices.Contains(podKeys, key) {
			out.leave("%s of the pod", key)
		}
	}
	containers, _ := pod.get("containers")
	list, _ := containers.value.([]foreignNode)
	if out.definition.Type == execType {
		out.containerCommand(pod, list)
	}
	out.keepContainers(list)
}

// keepContainers keeps what ran as metadata.
func (out *found) keepContainers(list []foreignNode) {
	kept := []map[string]foreignNode{}
	for _, container := range list {
		one := map[string]foreignNode{}
		for _, key := range containerKeys {
			if value, ok := container.get(key); ok {
				one[key] = value
			}
		}
		kept = append(kept, one)
		if out.definition.Type == execType {
			continue
		}
		out.leave("container %s (%s): a task runs here, the handler of %s has to do its work", container.textAt("name"), container.textAt("image"), out.definition.Type)
	}
	text, err := marshal(map[string]any{"kubernetes": map[string]any{"containers": kept}})
	if err != nil || len(text) > schedule.MaxMetadata {
		out.leave("the pod template is too large for metadata")
		return
	}
	out.definition.Metadata = text
	out.carry("metadata: the containers")
}
