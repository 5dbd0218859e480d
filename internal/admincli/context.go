package admincli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func newContext(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "context", Short: "Names for stores: list, use, previous, save, edit, rm, validate",
		Long: `A context is a name for a store: a Redis URL, a namespace, and what belongs to
them. They are in a file in your configuration directory that only you can read.
Flags win over the environment, that over --context or BELFRY_CONTEXT or the
current context, and that over the defaults; admin config --sources shows it.`,
		Example: "  admin context list\n  admin context use dev"}
	var secret, yes bool
	list := &cobra.Command{Use: "list", Short: "List the contexts", Example: "  admin context list\n  admin context list -o json",
		Args: arguments(0, 0, "nothing"), RunE: func(*cobra.Command, []string) error { return s.contextList() }}
	use := &cobra.Command{Use: "use NAME", Short: "Make a context the current one", Example: "  admin context use dev",
		Args: arguments(1, 1, "NAME"), ValidArgsFunction: s.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error { return s.contextUse(args[0]) }}
	previous := &cobra.Command{Use: "previous", Short: "Go back to the context before", Example: "  admin context previous",
		Args: arguments(0, 0, "nothing"), RunE: func(*cobra.Command, []string) error { return s.contextPrevious() }}
	save := &cobra.Command{Use: "save NAME", Short: "Save where the store is now, as flags and environment say, under a name",
		Example: "  admin context save staging --redis redis://redis.example.com:6379 --namespace staging",
		Args:    arguments(1, 1, "NAME"), RunE: func(_ *cobra.Command, args []string) error { return s.contextSave(args[0], secret) }}
	save.Flags().BoolVar(&secret, "with-password", false, "save the password too, in clear; BELFRY_REDIS_URL_FILE is safer")
	edit := &cobra.Command{Use: "edit", Short: "Open the file of contexts in the editor", Example: "  admin context edit",
		Args: arguments(0, 0, "nothing"), RunE: func(*cobra.Command, []string) error { return s.contextEdit() }}
	rm := &cobra.Command{Use: "rm NAME", Short: "Forget a context; the store stays as it is", Example: "  admin context rm dev --yes",
		Args: arguments(1, 1, "NAME"), ValidArgsFunction: s.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error { return s.contextRemove(args[0], yes) }}
	rm.Flags().BoolVar(&yes, "yes", false, "do not ask")
	validate := &cobra.Command{Use: "validate [NAME]", Short: "Connect to the store of a context, by default the current one",
		Example: "  admin context validate dev", Args: arguments(0, 1, "NAME"), ValidArgsFunction: s.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error { return s.contextValidate(args) }}
	cmd.AddCommand(list, use, previous, save, edit, rm, validate)
	return group(cmd)
}

// A contextJSON is a context as list prints it.
type contextJSON struct {
	Name      string            `json:"name"`
	Current   bool              `json:"current"`
	Variables map[string]string `json:"variables"` // secrets masked
}

func (s *session) contextList() error {
	c, err := s.readContexts()
	if err != nil {
		return err
	}
	views := []contextJSON{}
	for _, name := range c.names() {
		v := contextJSON{Name: name, Current: name == c.Current, Variables: map[string]string{}}
		for variable, value := range c.Contexts[name] {
			v.Variables[variable] = masked(variable, value)
		}
		views = append(views, v)
	}
	if len(views) == 0 {
		s.note("no contexts; save one with admin context save NAME --redis URL")
	}
	return s.emit(view{data: views, names: c.names(), table: func(w io.Writer) {
		if len(views) == 0 {
			return
		}
		t := newTable("", "NAME", "REDIS", "NAMESPACE")
		for _, v := range views {
			mark := " "
			if v.Current {
				mark = "*"
			}
			url := v.Variables["BELFRY_REDIS_URL"]
			if file := v.Variables["BELFRY_REDIS_URL_FILE"]; file != "" {
				url = "in file " + file
			}
			namespace := v.Variables["BELFRY_NAMESPACE"]
			if namespace == "" {
				namespace = "default"
			}
			t.add(mark, v.Name, url, namespace)
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}})
}

// masked hides secrets.
func masked(variable, value string) string {
	if variable != "BELFRY_REDIS_URL" {
		return value
	}
	u, err := config.ParseRedisURL(value)
	if err != nil {
		return "[redacted]"
	}
	return u.String()
}

// A contextActionJSON is what the commands that change something print.
type contextActionJSON struct {
	Name     string `json:"name"`
	Action   string `json:"action"` // current, saved, removed, edited or reachable
	Previous string `json:"previous"`
}

func (s *session) showContext(name, action, previous, line string) error {
	return s.emit(view{data: contextActionJSON{name, action, previous}, names: []string{name}, table: func(w io.Writer) { fmt.Fprintln(w, visible(line)) }})
}

func (s *session) contextUse(name string) error {
	c, err := s.readContexts()
	if err != nil {
		return err
	}
	if _, ok := c.Contexts[name]; !ok {
		return c.unknown(name)
	}
	if c.Current != name {
		c.Previous, c.Current = c.Current, name
		if err := s.writeContexts(c); err != nil {
			return err
		}
	}
	return s.showContext(name, "current", c.Previous, "the context is "+name)
}

func (s *session) contextPrevious() error {
	c, err := s.readContexts()
	if err != nil {
		return err
	}
	if _, ok := c.Contexts[c.Previous]; !ok {
		return codedErrorf(exitNotFound, "there was no context before; see admin context list")
	}
	return s.contextUse(c.Previous)
}

func (s *session) contextSave(name string, secret bool) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	values := map[string]string{}
	for variable, one := range settings {
		values[variable] = one.value
	}
	if values["BELFRY_REDIS_URL"] == "" && values["BELFRY_REDIS_URL_FILE"] == "" {
		return errNoRedis
	}
	if holdsPassword(values["BELFRY_REDIS_URL"]) && !secret {
		return usageErrorf("the URL of Redis holds a password, which would be saved in clear: put the URL into a file and set BELFRY_REDIS_URL_FILE, or say --with-password")
	}
	if err := checkContext(name, values); err != nil {
		return err
	}
	c, err := s.readContexts()
	if err != nil {
		return err
	}
	c.Contexts[name] = values
	if c.Current == "" {
		c.Current = name
	}
	if err := s.writeContexts(c); err != nil {
		return err
	}
	path, _ := s.contextPath() // it was written there
	return s.showContext(name, "saved", c.Previous, fmt.Sprintf("saved context %s in %s; the current one is %s", name, path, c.Current))
}

// contextEdit keeps the file as it was when what was written cannot be used.
func (s *session) contextEdit() error {
	path, err := s.contextPath()
	if err != nil {
		return err
	}
	editor, err := s.editor()
	if err != nil {
		return err
	}
	c, readErr := s.readContexts()
	if readErr == nil {
		if err := s.writeContexts(c); err != nil { // there may be none yet
			return err
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the file of contexts: %w", err)
	}
	if err := s.openEditor(editor, path); err != nil {
		return err
	}
	after, err := os.ReadFile(path)
	if err == nil {
		_, err = parseContexts(path, after)
	}
	if err != nil {
		kept := path + ".rejected"
		if readErr != nil {
			return err // it could not be used before either
		}
		if writeErr := os.WriteFile(kept, after, 0o600); writeErr != nil {
			return writeErr
		}
		if writeErr := os.WriteFile(path, before, 0o600); writeErr != nil {
			return writeErr
		}
		s.note("the file is as it was; what you wrote is kept in %s", kept)
		return err
	}
	return s.showContext(path, "edited", c.previous(), "edited "+path)
}

func (c *contexts) previous() string {
	if c == nil {
		return ""
	}
	return c.Previous
}

func (s *session) contextRemove(name string, yes bool) error {
	c, err := s.readContexts()
	if err != nil {
		return err
	}
	values, ok := c.Contexts[name]
	if !ok {
		return c.unknown(name)
	}
	if err := s.consent(yes, "forget", "context", []string{name + "  " + masked("BELFRY_REDIS_URL", values["BELFRY_REDIS_URL"])}); err != nil {
		return err
	}
	delete(c.Contexts, name)
	if c.Current == name {
		c.Current = ""
		s.note("%s was the current context; there is none now: admin context use NAME", name)
	}
	if c.Previous == name {
		c.Previous = ""
	}
	if err := s.writeContexts(c); err != nil {
		return err
	}
	return s.showContext(name, "removed", c.Previous, "removed context "+name)
}

func (s *session) contextValidate(args []string) error {
	if len(args) > 0 {
		s.flags.context = args[0]
	}
	name, _, err := s.chosenContext()
	if err != nil {
		return err
	}
	if name == "" {
		return codedErrorf(exitNotFound, "there is no current context; see admin context list")
	}
	stores, err := s.store()
	if err != nil {
		return err
	}
	var stats schedule.Stats
	err = s.within(func(ctx context.Context) (err error) { stats, err = stores.Catalog.Stats(ctx); return err })
	if err != nil {
		return err
	}
	return s.showContext(name, "reachable", "", fmt.Sprintf("context %s reaches %s: %s", name, s.address, count(int(stats.Total), "schedule")))
}

func (s *session) completeContexts(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.completeNames(cmd, args, prefix, func() ([]string, error) {
		c, err := s.readContexts()
		if err != nil {
			return nil, err
		}
		return c.names(), nil
	})
}

func newConfig(s *session) *cobra.Command {
	sources := false
	cmd := &cobra.Command{Use: "config", Short: "Show where the store is, and with --sources where each value came from",
		Example: "  admin config --sources\n  admin config -o json", Args: arguments(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error { return s.config(sources) }}
	cmd.Flags().BoolVar(&sources, "sources", false, "show where each value came from")
	return cmd
}

// A settingJSON is a setting as config prints it.
type settingJSON struct {
	Name   string `json:"name"`
	Value  string `json:"value"` // secrets masked
	Source string `json:"source"`
}

func (s *session) config(sources bool) error {
	all, err := s.settings()
	if err != nil {
		return err
	}
	if _, set := all["BELFRY_NAMESPACE"]; !set {
		all["BELFRY_NAMESPACE"] = setting{"BELFRY_NAMESPACE", "default", sourceDefault}
	}
	if _, set := all["BELFRY_REDIS_URL"]; !set && all["BELFRY_REDIS_URL_FILE"].value == "" {
		all["BELFRY_REDIS_URL"] = setting{"BELFRY_REDIS_URL", "", "not set"}
	}
	views, v := []settingJSON{}, view{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := all[name]
		value := one.value
		if value != "" {
			value = masked(name, value)
		}
		views, v.names = append(views, settingJSON{name, value, one.source}), append(v.names, name)
	}
	v.data = views
	v.table = func(w io.Writer) {
		header := []string{"NAME", "VALUE", "SOURCE"}
		if !sources {
			header = header[:2]
		}
		t := newTable(header...)
		for _, one := range views {
			t.add([]string{one.Name, one.Value, one.Source}[:len(header)]...)
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}
	if path, err := s.contextPath(); err == nil && sources {
		defer s.note("contexts are in %s", strings.TrimSpace(path))
	}
	return s.emit(v)
}
