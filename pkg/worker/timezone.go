package worker

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// zones are what the fingerprint is made of: zones whose rules changed within
// memory, or may change, on every continent.
var zones = []string{
	"Africa/Cairo", "Africa/Casablanca", "Africa/Johannesburg", "Africa/Khartoum", "Africa/Lagos", "America/Asuncion",
	"America/Bogota", "America/Caracas", "America/Chicago", "America/Havana", "America/Los_Angeles", "America/Mexico_City",
	"America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo", "America/St_Johns", "America/Tijuana",
	"America/Vancouver", "Antarctica/Troll", "Asia/Almaty", "Asia/Amman", "Asia/Dhaka", "Asia/Gaza", "Asia/Jerusalem",
	"Asia/Kolkata", "Asia/Manila", "Asia/Pyongyang", "Asia/Shanghai", "Asia/Tehran", "Asia/Tokyo", "Australia/Lord_Howe",
	"Australia/Sydney", "Europe/Berlin", "Europe/Istanbul", "Europe/London", "Europe/Moscow", "Pacific/Apia",
	"Pacific/Auckland", "Pacific/Fiji",
}

// TimeZoneFingerprint is a short hash of the UTC offsets of 40 zones from 2000
// to 2040, by week. Workers with different fingerprints may compute different
// scheduled times.
var TimeZoneFingerprint = sync.OnceValue(func() string {
	h := sha256.New()
	for _, name := range zones {
		location, err := time.LoadLocation(name)
		if err != nil {
			h.Write([]byte("missing " + name))
			continue
		}
		end := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
		for t := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(end); t = t.AddDate(0, 0, 7) {
			_, offset := t.In(location).Zone()
			h.Write(binary.BigEndian.AppendUint32(nil, uint32(int32(offset))))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
})

// TimeZoneSource says where the time zone data most likely comes from.
func TimeZoneSource() string {
	if path := os.Getenv("ZONEINFO"); path != "" {
		return path
	}
	for _, dir := range []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"} {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return "embedded in " + runtime.Version()
}

// warnTimeZones compares this worker's data with the others', once.
func (w *Worker) warnTimeZones(members []claim.Member, before bool) {
	if before {
		return
	}
	mine := TimeZoneFingerprint()
	for _, m := range members {
		if m.TimeZone != "" && m.TimeZone != mine {
			w.options.Logger.Warn("workers disagree about time zones: install the same time zone data everywhere",
				"worker", m.ID, "theirs", m.TimeZone, "ours", mine)
			return
		}
	}
}
