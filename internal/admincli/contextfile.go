package admincli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// contextFile is the file of contexts below the directory of configurations.
const contextFile = "contexts.yaml"

// maxContextFile bounds what is read, in bytes.
const maxContextFile = 1 << 20

// contexts are the stores that an operator has names for. A context holds
// environment variables, and the environment and flags win over it.
type contexts struct {
	Current  string                       `yaml:"current"`
	Previous string                       `yaml:"previous"`
	Contexts map[string]map[string]string `yaml:"contexts"`
}

// names are those of all contexts.
func (c *contexts) names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

func (s *session) contextPath() (string, error) {
	if s.env.ConfigDir == "" {
		return "", usageErrorf("there is no directory for configurations: set HOME or XDG_CONFIG_HOME")
	}
	return filepath.Join(s.env.ConfigDir, contextFile), nil
}

// readContexts returns none when there is no file.
func (s *session) readContexts() (*contexts, error) {
	none := &contexts{Contexts: map[string]map[string]string{}}
	if s.env.ConfigDir == "" {
		return none, nil
	}
	path, err := s.contextPath()
	if err != nil {
		return nil, err
	}
	stat, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, usageErrorf("the file of contexts %q cannot be read: %v", path, errors.Unwrap(err))
	}
	if stat.Size() > maxContextFile {
		return nil, usageErrorf("the file of contexts %q has %d bytes: allowed: at most %d", path, stat.Size(), maxContextFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usageErrorf("the file of contexts %q cannot be read: %v", path, errors.Unwrap(err))
	}
	if stat.Mode().Perm()&0o077 != 0 {
		s.warn("%s can be read by others: chmod 600 %s", path, path)
	}
	return parseContexts(path, text)
}

// parseContexts checks every context. What it says repeats no value: one may
// hold a password.
func parseContexts(path string, text []byte) (*contexts, error) {
	c := &contexts{}
	if err := yaml.UnmarshalWithOptions(text, c, yaml.Strict()); err != nil {
		return nil, usageErrorf("the file of contexts %q is not as expected: %s", path, firstLine(yaml.FormatError(err, false, false)))
	}
	if c.Contexts == nil {
		c.Contexts = map[string]map[string]string{}
	}
	for _, name := range c.names() {
		if err := checkContext(name, c.Contexts[name]); err != nil {
			return nil, err
		}
	}
	if c.Current != "" && c.Contexts[c.Current] == nil {
		return nil, usageErrorf("the file of contexts %q: current %q is none of its contexts", path, c.Current)
	}
	return c, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func checkContext(name string, values map[string]string) error {
	if schedule.ID(name).Validate() != nil {
		return &schedule.FieldError{Field: "context", Value: name, Allowed: "1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit"}
	}
	for variable, value := range values {
		if !storeVariable(variable) {
			return &schedule.FieldError{Field: "context " + name, Value: variable, Allowed: "variables that say where the store is: BELFRY_REDIS_..., BELFRY_NAMESPACE"}
		}
		if variable == "BELFRY_REDIS_URL" {
			if _, err := config.ParseRedisURL(value); err != nil {
				return usageErrorf("context %q: BELFRY_REDIS_URL: %v", name, err)
			}
		}
	}
	return nil
}

// writeContexts replaces the file in one step.
func (s *session) writeContexts(c *contexts) error {
	path, err := s.contextPath()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("render the file of contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the file of contexts: %w", err)
	}
	partial, err := os.CreateTemp(filepath.Dir(path), ".contexts-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the file of contexts: %w", err)
	}
	_, err = partial.Write(text)
	if err = errors.Join(err, partial.Sync(), partial.Close()); err == nil {
		err = os.Rename(partial.Name(), path)
	}
	if err != nil {
		_ = os.Remove(partial.Name()) // it holds nothing that is missed
		return fmt.Errorf("write the file of contexts: %w", err)
	}
	return nil
}

// A setting is a variable with where it comes from.
type setting struct {
	name, value, source string
}

// Where a setting comes from.
const (
	sourceFlag        = "flag"
	sourceEnvironment = "environment"
	sourceDefault     = "default"
)

// settings are the variables that say where the store is: flags win over the
// environment, that over the context.
func (s *session) settings() (map[string]setting, error) {
	all := map[string]setting{}
	name, values, err := s.chosenContext()
	if err != nil {
		return nil, err
	}
	for variable, value := range values {
		all[variable] = setting{variable, value, "context " + name}
	}
	environ := map[string]string{}
	for variable, value := range s.env.Environ {
		if storeVariable(variable) && value != "" {
			environ[variable] = value
		}
	}
	flags := map[string]string{}
	if err := s.override(flags); err != nil {
		return nil, err
	}
	for _, layer := range []struct {
		values map[string]string
		source string
	}{{environ, sourceEnvironment}, {flags, sourceFlag}} {
		// Another server takes other certificates; and a URL and the file that
		// holds one stand for each other.
		if layer.values["BELFRY_REDIS_URL"] != "" || layer.values["BELFRY_REDIS_URL_FILE"] != "" {
			maps.DeleteFunc(all, func(variable string, one setting) bool {
				return strings.HasPrefix(variable, "BELFRY_REDIS_") && (one.source != sourceEnvironment || strings.HasPrefix(variable, "BELFRY_REDIS_URL"))
			})
		}
		for variable, value := range layer.values {
			all[variable] = setting{variable, value, layer.source}
		}
	}
	if namespace, set := all["BELFRY_NAMESPACE"]; set {
		return all, schedule.ValidateNamespace(namespace.value)
	}
	return all, nil
}

// chosenContext is that of --context, of BELFRY_CONTEXT, or the current one;
// "" is none.
func (s *session) chosenContext() (string, map[string]string, error) {
	asked := s.flags.context
	if asked == "" {
		asked = s.env.Environ["BELFRY_CONTEXT"]
	}
	c, err := s.readContexts()
	if err != nil {
		return "", nil, err
	}
	name := asked
	if name == "" {
		name = c.Current
	}
	if name == "" {
		return "", nil, nil
	}
	values, ok := c.Contexts[name]
	if !ok {
		return "", nil, c.unknown(name)
	}
	return name, values, nil
}

func (c *contexts) unknown(name string) error {
	near := didYouMean(name, c.names())
	if near == "" {
		near = "; see admin context list"
	}
	return codedErrorf(exitNotFound, "context %q does not exist%s", clip(name, 60), near)
}
