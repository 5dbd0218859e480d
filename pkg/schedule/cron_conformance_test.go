package schedule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A conformanceRow is one fact from a public test suite; see
// testdata/cron/README.md for the columns.
type conformanceRow struct {
	id, expression, zone, from, want string
}

// disputed lists rows whose answer this dialect does not give, and why. They
// must stay few.
var disputed = map[string]string{
	"cron-utils-0041": "Quartz counts Sunday as 1; here 1/7 in day-of-week is Monday, as in every other row",
}

func conformanceRows(t testing.TB) []conformanceRow {
	t.Helper()
	files, err := filepath.Glob("testdata/cron/*.tsv")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conformance data: %v", err)
	}
	var rows []conformanceRow
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
			columns := strings.Split(line, "\t")
			if len(columns) < 12 {
				t.Fatalf("%s:%d: %d columns", name, i+1, len(columns))
			}
			if columns[0] == "id" {
				continue
			}
			row := conformanceRow{id: columns[0], expression: columns[3], zone: columns[4], from: columns[5], want: columns[6]}
			if columns[11] != "=" {
				row.want = columns[11]
			}
			if len(row.expression) >= 2 && row.expression[0] == '"' {
				row.expression = strings.Trim(row.expression, `"`)
			}
			row.expression = strings.ReplaceAll(row.expression, `\t`, "\t")
			rows = append(rows, row)
		}
	}
	return rows
}

// judge runs one row and returns what is wrong, or "".
func (r conformanceRow) judge() string {
	location, err := loadLocation(r.zone)
	var spec Spec
	if err == nil {
		spec, err = ParseCron(r.expression, location)
	}
	switch {
	case r.want == "ERROR" && err == nil:
		return "accepted as " + spec.String()
	case r.want == "ERROR":
		return ""
	case err != nil:
		return err.Error()
	case r.want == "ACCEPT":
		return ""
	}
	at, err := time.Parse(time.RFC3339, r.from)
	if err != nil {
		return err.Error()
	}
	if r.want == "NEVER" {
		if got, ok := spec.Next(at); ok {
			return "fires at " + got.UTC().Format(time.RFC3339)
		}
		return ""
	}
	var got []string
	for range strings.Split(r.want, ",") {
		next, ok := spec.Next(at)
		if !ok {
			break
		}
		got = append(got, next.UTC().Format(time.RFC3339))
		at = next
	}
	if list := strings.Join(got, ","); list != r.want {
		return "got " + list + ", want " + r.want
	}
	return ""
}

func TestConformance(t *testing.T) {
	rows := conformanceRows(t)
	passed := 0
	for _, row := range rows {
		wrong := row.judge()
		if reason, ok := disputed[row.id]; ok {
			if wrong == "" {
				t.Errorf("%s is listed as disputed (%s) but holds", row.id, reason)
			}
			continue
		}
		if wrong != "" {
			t.Errorf("%s %q in %s from %s: %s", row.id, row.expression, row.zone, row.from, wrong)
			continue
		}
		passed++
	}
	if len(disputed)*50 > len(rows) {
		t.Errorf("%d of %d rows are disputed, more than 2 %%", len(disputed), len(rows))
	}
	if len(rows) < 1300 {
		t.Errorf("only %d rows", len(rows))
	}
	t.Logf("%d of %d rows hold", passed, len(rows))
}
