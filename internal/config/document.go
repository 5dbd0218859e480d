package config

import (
	"fmt"
	"reflect"
	"strings"
)

const documentHead = `# Configuration

The worker is configured by environment variables alone. This page is made from the code: ` + "`make generate`" + ` writes it, a test compares it.

A wrong value stops the worker before it does anything, with one line for each problem and exit code 2. A variable that starts with
` + "`BELFRY_`" + ` and is not listed here is warned about. Durations are written like ` + "`500ms`, `30s`, `10m`, `1h`" + `.

Where it says "secret", the variable with ` + "`_FILE`" + ` appended names a file that holds the value; set one of the two. Symbolic
links and pipes (` + "`BELFRY_REDIS_URL_FILE=<(print-url)`" + `) are read like files; one that is empty, or of which the end has not come after 5 s, is
refused. No message and no log holds a password.

## BELFRY_REDIS_URL

| form | what it is |
|---|---|
| ` + "`redis://user:password@host:6379/0`" + ` | one server; user, password, port and database may be left out |
| ` + "`redis://host1:6379,host2:6379`" + ` | a Redis Cluster, by some of its nodes |
| ` + "`redis://host:6379?cluster=true`" + ` | a Redis Cluster, by one node |
| ` + "`redis-sentinel://user:password@host1:26379,host2:26379/master/0`" + ` | a master that Sentinels watch; the Sentinels' own login is ` + "`?sentinel_username=...&sentinel_password=...`" + ` |
| ` + "`rediss://`, `rediss-sentinel://`" + ` | the same over TLS 1.2 or later; the certificate is always verified |

Characters such as ` + "`@ : / ? # %`" + ` in a user or password are written as %-escapes.
`

// Document renders docs/CONFIGURATION.md.
func Document() string {
	var out strings.Builder
	out.WriteString(documentHead)
	block := ""
	for _, f := range fieldsOf(reflect.TypeFor[Worker]()) {
		if f.block != block {
			block = f.block
			fmt.Fprintf(&out, "\n## %s\n\n| variable | default | allowed | meaning |\n|---|---|---|---|\n", block)
		}
		byDef := "none"
		if f.byDef != "" {
			byDef = "`" + f.byDef + "`"
		}
		help := f.help
		if f.secret {
			help += " Secret."
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", f.variable, byDef, f.allowed, help)
	}
	return out.String()
}
