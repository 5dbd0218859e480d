package admincli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersion(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		Example: "  admin version\n  admin version -o json",
		Args:    arguments(0, 0, "nothing"),
		RunE:    func(*cobra.Command, []string) error { return s.version() },
	}
}

// A versionJSON is what version prints.
type versionJSON struct {
	Version      string `json:"version"`
	Go           string `json:"go"`
	Platform     string `json:"platform"`
	TimeZoneData string `json:"timezone_data"`
}

func (s *session) version() error {
	v := versionJSON{Version: s.env.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, TimeZoneData: s.env.TimeZoneData()}
	return s.emit(view{data: v, names: []string{v.Version}, table: func(w io.Writer) {
		fmt.Fprintf(w, "admin %s, %s, %s, time zone data %s\n", v.Version, v.Go, v.Platform, v.TimeZoneData)
	}})
}
