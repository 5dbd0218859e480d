package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/caarlos0/env/v11"
)

// Load reads the configuration of the worker. A nil environ is the process
// environment; any other map, even an empty one, stands for it. A secret
// variable X can be given as X_FILE, the name of a file that holds it. The
// error joins one *schedule.FieldError for each problem, named by variable.
func Load(environ map[string]string) (Worker, error) {
	if environ == nil {
		environ = env.ToMap(os.Environ())
	}
	fields := fieldsOf(reflect.TypeFor[Worker]())
	values, problems := readFiles(fields, environ)
	worker, err := env.ParseAsWithOptions[Worker](env.Options{Environment: values})
	problems = append(problems, explain(err, fields, values)...)
	if len(problems) > 0 {
		return Worker{}, errors.Join(append(problems, boundsOfTheRest(problems, values)...)...)
	}
	problems = checkBounds(reflect.ValueOf(worker))
	problems = append(problems, checkRelations(worker)...)
	if len(problems) > 0 {
		return Worker{}, errors.Join(problems...)
	}
	worker.Warnings = UnknownVariables(environ)
	return worker, nil
}

// boundsOfTheRest holds the settings that could be read against their bounds,
// so that one that could not does not hide them.
func boundsOfTheRest(problems []error, values map[string]string) []error {
	rest := maps.Clone(values)
	for _, problem := range problems {
		var refused *schedule.FieldError
		if errors.As(problem, &refused) {
			delete(rest, refused.Field)
		}
	}
	worker, err := env.ParseAsWithOptions[Worker](env.Options{Environment: rest})
	if err != nil {
		return nil
	}
	return checkBounds(reflect.ValueOf(worker))
}

// A field is one setting as the tags describe it.
type field struct {
	name     string // of the Go field; unique among all settings
	block    string // of the struct that holds it
	variable string
	byDef    string
	allowed  string
	help     string
	secret   bool
	min, max string
	kind     reflect.Type
}

// fieldsOf lists the settings of a configuration struct in order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for block := range t.NumField() {
		outer := t.Field(block)
		if outer.Tag.Get("env") == "-" {
			continue
		}
		for i := range outer.Type.NumField() {
			f := outer.Type.Field(i)
			fields = append(fields, newField(outer.Name, f))
		}
	}
	return fields
}

func newField(block string, f reflect.StructField) field {
	variable, _, _ := strings.Cut(f.Tag.Get("env"), ",")
	out := field{name: f.Name, block: block, variable: variable, byDef: f.Tag.Get("envDefault"),
		allowed: f.Tag.Get("allowed"), help: f.Tag.Get("help"), secret: f.Tag.Get("secret") == "true",
		min: f.Tag.Get("min"), max: f.Tag.Get("max"), kind: f.Type}
	if out.allowed == "" {
		switch {
		case f.Type.Kind() == reflect.Bool:
			out.allowed = "true or false"
		case f.Type == reflect.TypeFor[time.Duration]():
			out.allowed = "a duration from " + out.min + " to " + out.max
		case f.Type.Kind() == reflect.Int:
			out.allowed = "a whole number from " + out.min + " to " + out.max
		}
	}
	return out
}

// readFiles returns environ with X set from the file that X_FILE names.
func readFiles(fields []field, environ map[string]string) (map[string]string, []error) {
	values := make(map[string]string, len(environ))
	for name, value := range environ {
		values[name] = value
	}
	var problems []error
	for _, f := range fields {
		file := f.variable + "_FILE"
		path := environ[file]
		if !f.secret || path == "" {
			continue
		}
		if environ[f.variable] != "" {
			problems = append(problems, &schedule.FieldError{Field: file, Value: path, Allowed: "either " + file + " or " + f.variable + ", not both"})
			continue
		}
		secret, err := readSecret(path, fileWait)
		if err != nil {
			problems = append(problems, &schedule.FieldError{Field: file, Value: path, Allowed: "a readable file of 1 byte to 64 KiB", Hint: err.Error()})
			continue
		}
		values[f.variable] = secret
	}
	return values, problems
}

// explain turns the parser's errors, which name Go fields and repeat values,
// into errors that name variables and hide secrets.
func explain(err error, fields []field, values map[string]string) []error {
	if err == nil {
		return nil
	}
	var all env.AggregateError
	if !errors.As(err, &all) {
		return []error{fmt.Errorf("config: read the environment: %w", err)}
	}
	var problems []error
	for _, one := range all.Errors {
		var parse env.ParseError
		if !errors.As(one, &parse) {
			problems = append(problems, fmt.Errorf("config: read the environment: %w", one))
			continue
		}
		problems = append(problems, refusal(parse, fields, values))
	}
	return problems
}

func refusal(parse env.ParseError, fields []field, values map[string]string) error {
	for _, f := range fields {
		if f.name != parse.Name && f.block+"."+f.name != parse.Name {
			continue
		}
		out := &schedule.FieldError{Field: f.variable, Value: values[f.variable], Allowed: f.allowed}
		if f.secret {
			// The errors of ParseRedisURL hold no part of the login.
			out.Value = redacted
		}
		if f.kind == reflect.TypeFor[RedisURL]() || f.kind == reflect.TypeFor[Queues]() {
			out.Hint = strings.TrimPrefix(parse.Err.Error(), "config: ")
		}
		return out
	}
	return fmt.Errorf("config: field %s has no variable: %w", parse.Name, parse.Err)
}

// checkBounds holds each number and duration against its min and max tags.
func checkBounds(worker reflect.Value) []error {
	var problems []error
	for _, f := range fieldsOf(worker.Type()) {
		if f.min == "" {
			continue
		}
		value := worker.FieldByName(f.block).FieldByName(f.name)
		lowest, highest := bound(f.min, f.kind), bound(f.max, f.kind)
		if n := value.Int(); n < lowest || n > highest {
			problems = append(problems, &schedule.FieldError{Field: f.variable, Value: fmt.Sprint(value.Interface()), Allowed: f.allowed})
		}
	}
	return problems
}

// bound reads a min or max tag; a bad one is a fault of this package, which
// TestBoundsAreReadable finds.
func bound(tag string, kind reflect.Type) int64 {
	if kind == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(tag)
		if err != nil {
			panic(err)
		}
		return int64(d)
	}
	n, err := strconv.ParseInt(tag, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// checkRelations checks what the tags cannot say.
func checkRelations(w Worker) []error {
	var problems []error
	refuse := func(variable, value, allowed string) {
		problems = append(problems, &schedule.FieldError{Field: variable, Value: value, Allowed: allowed})
	}
	if err := schedule.ValidateNamespace(w.Redis.Namespace); err != nil {
		refuse("BELFRY_NAMESPACE", w.Redis.Namespace, "1 to 32 letters, digits or '-'")
	}
	if w.Schedule.AuditAfter < w.Schedule.ClaimTTL {
		refuse("BELFRY_AUDIT_AFTER", w.Schedule.AuditAfter.String(), "at least BELFRY_CLAIM_TTL, which is "+w.Schedule.ClaimTTL.String())
	}
	if (w.Redis.CertFile == "") != (w.Redis.KeyFile == "") {
		refuse("BELFRY_REDIS_CERT_FILE", w.Redis.CertFile, "set together with BELFRY_REDIS_KEY_FILE")
	}
	if (w.Redis.CAFile != "" || w.Redis.CertFile != "") && !w.Redis.URL.IsZero() && !w.Redis.URL.TLS {
		refuse("BELFRY_REDIS_URL", w.Redis.URL.String(), "rediss:// or rediss-sentinel://, since certificates are given")
	}
	if w.Process.HTTPAddr != "off" && !isListenAddr(w.Process.HTTPAddr) {
		refuse("BELFRY_HTTP_ADDR", w.Process.HTTPAddr, "host:port, or off")
	}
	switch w.Process.LogFormat {
	case "auto", "text", "json":
	default:
		refuse("BELFRY_LOG_FORMAT", w.Process.LogFormat, "auto, text or json")
	}
	return problems
}

func isListenAddr(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// LoadRedis is Load for programs that need the store alone: it reads the
// variables of block Redis and refuses an environment without a URL.
func LoadRedis(environ map[string]string) (Redis, error) {
	own := map[string]string{}
	if environ == nil {
		environ = env.ToMap(os.Environ())
	}
	for name, value := range environ {
		if strings.HasPrefix(name, "BELFRY_REDIS_") || name == "BELFRY_NAMESPACE" {
			own[name] = value
		}
	}
	worker, err := Load(own)
	if err == nil && worker.Redis.URL.IsZero() {
		err = &schedule.FieldError{Field: "BELFRY_REDIS_URL", Value: "", Allowed: "redis://HOST:PORT and other forms, see docs/CONFIGURATION.md"}
	}
	return worker.Redis, err
}
