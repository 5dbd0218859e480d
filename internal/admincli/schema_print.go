package admincli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/admincli/schema"
)

func newSchema(s *session) *cobra.Command {
	return &cobra.Command{Use: "schema [file|output]", Short: "Print the JSON Schema of schedule files or of what the commands print",
		Long: `Print a JSON Schema: "file", the default, of the files that apply reads; editors
can complete and check with it. "output" of what each command prints with -o json.
Names are stable: they may be added, and none changes its meaning.`,
		Example: "  admin schema\n  admin schema output", Args: arguments(0, 1, "file or output"), ValidArgs: []string{"file", "output"},
		RunE: func(_ *cobra.Command, args []string) error {
			what := "file"
			if len(args) > 0 {
				what = args[0]
			}
			return s.schema(what)
		}}
}

// schema prints the document as it is; as a name it has its own.
func (s *session) schema(what string) error {
	if err := oneOf("schema", what, "file", "output"); err != nil {
		return err
	}
	text := schema.File()
	if what == "output" {
		text = schema.Output()
	}
	switch s.flags.format {
	case formatYAML:
		return writeYAML(s.out, text)
	case formatName:
		fmt.Fprintln(s.out, what)
	case formatJSONL:
		return writeLines(s.out, text)
	default:
		_, err := io.WriteString(s.out, string(text))
		return err
	}
	return nil
}
