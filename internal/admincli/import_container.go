package admincli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// execType is the task type whose handler runs a command of the machine.
const execType = "exec"

// What of a pod and of its container is looked at; the rest is reported.
var (
	podKeys       = []string{"containers", "restartPolicy"}
	containerKeys = []string{"name", "image", "command", "args", "env", "workingDir"}
)

// maxBackoffLimit is the most that max_retry may be.
const maxBackoffLimit = 1000

// jobRetries carries backoffLimit over: both count what is tried after the
// first attempt.
func (out *found) jobRetries(job foreignNode) {
	text := job.textAt("backoffLimit")
	if text == "" {
		return
	}
	retries, err := strconv.Atoi(text)
	if err != nil || retries < 0 || retries > maxBackoffLimit {
		out.leave("backoffLimit %s: max_retry is 0 to %d", text, maxBackoffLimit)
		return
	}
	out.definition.MaxRetry = &retries
	out.carry("max_retry: %d (backoffLimit)", retries)
}

// containerCommand makes an exec task of the only container of a pod. What the
// file does not say, such as the entry point of an image, is refused.
func (out *found) containerCommand(pod foreignNode, containers []foreignNode) {
	more := ""
	if _, inits := pod.get("initContainers"); inits {
		more = " and initContainers"
	}
	if more != "" || len(containers) != 1 {
		out.refuse("%s%s: an exec task runs one command", count(len(containers), "container"), more)
		return
	}
	c := containers[0]
	command, problem := c.texts("command")
	args, badArgs := c.texts("args")
	switch {
	case problem != "" || badArgs != "":
		out.refuse("%s", or(problem, badArgs))
	case len(command) == 0:
		out.refuse("no command: it stands in the image %s, not in the file", c.textAt("image"))
	case !filepath.IsAbs(command[0]) || filepath.Clean(command[0]) != command[0]:
		out.refuse("command %q is looked for in the image: an exec task needs an absolute path", clip(command[0], 60))
	case slices.ContainsFunc(append(slices.Clone(command), args...), filledIn):
		out.refuse("Kubernetes fills in $(NAME) and $$ in command and args; an exec task hands over what is written")
	}
	if out.refused != "" {
		return
	}
	payload := execJSON{Command: command[0], Args: append(command[1:], args...), Env: out.containerEnv(c)}
	out.containerDir(c, &payload)
	text, err := marshal(payload)
	if err != nil {
		out.refuse("%s", err)
		return
	}
	out.program, out.definition.Payload = payload.Command, text
	out.carry("command: %s", payload.Command)
	if len(payload.Args) > 0 {
		out.carry("args: %s", strings.Join(payload.Args, " "))
	}
	out.leave("image %s: the command has to be on the workers", c.textAt("image"))
	for _, key := range c.keys() {
		if !slices.Contains(containerKeys, key) && key != "envFrom" {
			out.leave("%s of the container", key)
		}
	}
}

// filledIn reports whether Kubernetes changes a text before it hands it over.
func filledIn(text string) bool { return strings.Contains(text, "$(") || strings.Contains(text, "$$") }

// environmentName is what exec tasks accept.
var environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// containerEnv keeps the variables whose value stands in the file.
func (out *found) containerEnv(c foreignNode) map[string]string {
	env := map[string]string{}
	var names []string
	listed, _ := c.get("env")
	list, _ := listed.value.([]foreignNode)
	for _, one := range list {
		name := one.textAt("name")
		_, elsewhere := one.get("valueFrom")
		value := one.textAt("value")
		switch {
		case elsewhere:
			out.leave("env %s: its value is not in the file (%s): give it to the workers", name, sourceOf(one))
		case !environmentName.MatchString(name):
			out.leave("env %q: not a name that exec tasks accept", clip(name, 60))
		case filledIn(value):
			out.leave("env %s: Kubernetes fills in $(NAME) and $$ in its value", name)
		default:
			if _, twice := env[name]; !twice {
				names = append(names, name)
			}
			env[name] = value // the last one wins there, too
		}
	}
	if _, more := c.get("envFrom"); more {
		out.leave("envFrom: its variables are not in the file: give them to the workers")
	}
	if len(names) > 0 {
		out.carry("env: %s (workers need BELFRY_EXEC_ENV)", strings.Join(names, " "))
	}
	return env
}

// sourceOf says where a variable gets its value, as "secretKeyRef db/password".
func sourceOf(variable foreignNode) string {
	from, _ := variable.get("valueFrom")
	for _, kind := range from.keys() {
		name, key := from.textAt(kind, "name"), from.textAt(kind, "key")
		return strings.TrimSuffix(strings.TrimSpace(fmt.Sprintf("%s %s/%s", kind, name, key)), "/")
	}
	return "valueFrom"
}

func (out *found) containerDir(c foreignNode, payload *execJSON) {
	dir := c.textAt("workingDir")
	switch {
	case dir == "":
		out.leave("working directory: that of the image is not in the file, the task starts in that of the worker")
	case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir:
		out.leave("workingDir %q: an exec task needs an absolute path", clip(dir, 60))
	default:
		payload.Dir = dir
		out.carry("dir: %s (workers need BELFRY_EXEC_DIRS)", dir)
	}
}

// texts is a list of texts; a number or another value in it is a problem.
func (n foreignNode) texts(key string) (all []string, problem string) {
	value, ok := n.get(key)
	if !ok {
		return nil, ""
	}
	list, ok := value.value.([]foreignNode)
	if !ok {
		return nil, key + " is not a list"
	}
	for _, one := range list {
		text, isText := one.value.(string)
		if !isText {
			return nil, key + " holds what is no text"
		}
		all = append(all, text)
	}
	return all, ""
}
