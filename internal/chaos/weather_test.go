package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
)

var (
	weatherFor  = flag.Duration("weather", 0, "how long TestWeather hurts a fleet; 0 skips it")
	weatherSeed = flag.Uint64("weather-seed", 1, "what is done to whom, and when")
	weatherDisk = flag.String("weather-disk", "aof", "what Redis keeps when it is killed half-way: aof, all but what everysec had not written; rdb, a snapshot of 10 s before; none, nothing, and the file is applied again")
)

const (
	weatherSchedules = 200
	weatherStill     = 60 * time.Second // how long a stopped worker stands still
	weatherRun       = 800 * time.Millisecond
	weatherAway      = 3 * time.Second // how long Redis is away
	weatherSettled   = 90 * time.Second
)

// A kind of schedule: how it is written, when it is due and what may become of
// a scheduled time.
type kind struct {
	name     string
	text     string // of the file, with %d for the period in seconds
	periods  []int  // that divide a minute
	due      func(at time.Time) bool
	verdicts string // those allowed, by their numbers
	once     bool   // at most once
}

// excluded are the even minutes, as the calendar of the file says.
func excluded(at time.Time) bool { return at.Minute()%2 == 0 }

func always(time.Time) bool { return true }

// kinds is every sort of schedule; each has the due times of a clock, so that
// what is expected is not computed by what is under test.
var kinds = []kind{
	{"cron", `expression: "*/%d * * * * *", missed: all, catch_up: 1h, priority: 100`, []int{2, 3, 5, 10}, always, "1", false},
	{"every", `expression: "%ds", missed: all, catch_up: 1h, priority: -100`, []int{3, 4, 5, 6}, always, "1", false},
	{"except", `expression: "*/%d * * * * *", except: [{calendar: even}], missed: all, catch_up: 1h`, []int{2, 4, 5}, func(at time.Time) bool { return !excluded(at) }, "1", false},
	{"only", `expression: "*/%d * * * * *", only: [{calendar: even}], missed: all, catch_up: 1h`, []int{2, 4, 5}, excluded, "1", false},
	{"jitter", `expression: "%ds", jitter: 1s, missed: all, catch_up: 1h`, []int{4, 5, 10}, always, "1", false},
	{"latest", `expression: "*/%d * * * * *", missed: latest`, []int{3, 4, 5}, always, "12", false},
	{"skip", `expression: "*/%d * * * * *", missed: skip`, []int{3, 4, 5}, always, "13", false},
	{"overlap-skip", `expression: "%ds", missed: all, catch_up: 1h, overlap: skip`, []int{3, 4, 5}, always, "14", false},
	{"buffer-one", `expression: "%ds", missed: all, catch_up: 1h, overlap: buffer_one`, []int{4, 5, 6}, always, "14", false},
	{"buffer-all", `expression: "%ds", missed: all, catch_up: 1h, overlap: buffer_all`, []int{5, 10, 12}, always, "14", false},
	{"cancel", `expression: "%ds", missed: all, catch_up: 1h, overlap: cancel_other`, []int{4, 5, 6}, always, "1", false},
	{"once", `expression: "*/%d * * * * *", missed: all, catch_up: 1h, effect: at_most_once`, []int{4, 5, 6}, always, "1", true},
}

// weatherFile renders the schedules; kindOf and periodOf read their names.
func weatherFile(host string) string {
	var b strings.Builder
	b.WriteString("calendars:\n  - {name: even, cron: [\"*/2 * * * *\"]}\nschedules:\n")
	for i := range weatherSchedules {
		k := kinds[i%len(kinds)]
		period := k.periods[i/len(kinds)%len(k.periods)]
		fmt.Fprintf(&b, "  - {id: %s-%d-%03d, labels: {suite: chaos}, %s, type: http, payload: {method: POST, url: \"http://%s/?hold=%s\"}}\n",
			k.name, period, i, fmt.Sprintf(k.text, period), host, weatherRun)
	}
	return b.String()
}

// weather is a fleet with what was done to it.
type weather struct {
	*fleet
	draw    *rand.Rand
	env     map[string]string
	workers []*process
	started int

	mu     sync.Mutex
	faults []fault
}

// A fault is something that may have met a run.
type fault struct {
	what     string
	from, to time.Time
}

func (w *weather) note(what string, from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fault{what, from, to})
}

func (w *weather) start(t *testing.T) *process {
	w.started++
	return w.worker(t, fmt.Sprintf("worker-%02d", w.started), w.env)
}

// hurt does something to a worker and returns when it is through; i is whom.
func (w *weather) hurt(t *testing.T, i int, ended <-chan struct{}) {
	now, p := time.Now(), w.workers[i]
	switch draw := w.draw.IntN(10); {
	case draw < 5:
		p.signal(syscall.SIGKILL)
		w.note("kill "+p.name, now, now)
	case draw < 8:
		p.signal(syscall.SIGTERM)
		w.note("term "+p.name, now, now)
		if code := p.wait(t, 40*time.Second); code != 0 {
			t.Errorf("%s ended with %d", p.name, code)
		}
	default:
		p.signal(syscall.SIGSTOP)
		w.note("stop "+p.name, now, now) // when it wakes its tokens are old
		go func() {
			select {
			case <-time.After(weatherStill):
			case <-ended:
			}
			p.signal(syscall.SIGCONT)
		}()
		return
	}
	at(time.Now(), time.Duration(w.draw.IntN(4000))*time.Millisecond)
	w.workers[i] = w.start(t)
}

// restart kills Redis and starts it again. It returns the time from which on
// nothing was lost with it.
func (w *weather) restart(t *testing.T, file string) (from time.Time) {
	since := time.Now().Add(-3 * time.Second) // everysec may have that much in hand
	if *weatherDisk == "rdb" {
		since = time.Now()
		if err := w.client.Save(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		at(since, 10*time.Second)
	}
	w.redis.Kill()
	at(time.Now(), weatherAway)
	w.redis.Restart()
	w.note("redis", since, time.Now().Add(5*time.Second))
	if *weatherDisk == "none" {
		mustAdmin(t, w.fleet.env, file, "apply", "-f", "-")
		return time.Now().Add(2 * time.Second)
	}
	return time.Time{}
}

// blow hurts the fleet for as long as the flag says, with Redis half-way.
func (w *weather) blow(t *testing.T, file string, v *verdicts) {
	start, ended := time.Now(), make(chan struct{})
	defer close(ended)
	still := map[int]time.Time{}
	for redisDone := false; time.Since(start) < *weatherFor; {
		at(time.Now(), time.Duration(3000+w.draw.IntN(7000))*time.Millisecond)
		v.look(t, w.fleet)
		if !redisDone && time.Since(start) > *weatherFor/2 {
			redisDone = true
			v.restarted(w.restart(t, file))
			continue
		}
		i := w.draw.IntN(len(w.workers))
		if time.Since(still[i]) < weatherStill+5*time.Second {
			continue
		}
		p := w.workers[i]
		if w.hurt(t, i, ended); w.workers[i] == p {
			still[i] = time.Now()
		}
	}
}

// TestWeather judges a fleet of every kind of schedule after minutes of random
// faults. It is started by hand: make weather.
func TestWeather(t *testing.T) {
	if *weatherFor == 0 {
		t.Skip("takes minutes: make weather")
	}
	f := newFleet(t, redistest.ServerOptions{AOF: *weatherDisk == "aof", Args: []string{"--appendfsync", "everysec"}})
	w := &weather{fleet: f, draw: rand.New(rand.NewPCG(*weatherSeed, 0)), env: map[string]string{
		"BELFRY_CLAIM_TTL": "5s", "BELFRY_EXECUTION_LEASE": "5s", "BELFRY_AUDIT_AFTER": "5s",
		"BELFRY_KEEP_RUNS": "1000", "BELFRY_CONCURRENCY": "60", "BELFRY_LOG_FORMAT": "json"}}
	for range 3 {
		w.workers = append(w.workers, w.start(t))
	}
	file := weatherFile(f.sink.host())
	mustAdmin(t, f.env, file, "apply", "-f", "-")
	v := &verdicts{from: time.Now().Add(2 * time.Second), of: map[string]map[time.Time]verdict{}}
	w.blow(t, file, v)
	end := time.Now()
	for settled := end.Add(weatherSettled); time.Now().Before(settled); {
		at(time.Now(), 10*time.Second)
		v.look(t, f)
	}
	mustAdmin(t, f.env, "", "schedule", "pause", "-l", "suite=chaos", "--reason", "the end")
	if !eventually(t, time.Now().Add(fleetSettled), func() bool { s := f.stats(t); return s.Open == 0 && s.Buffered == 0 }) {
		t.Errorf("%+v after the pause", f.stats(t))
	}
	v.look(t, f)
	w.judge(t, v, end)
	for _, p := range w.workers {
		p.signal(syscall.SIGTERM)
		if code := p.wait(t, 40*time.Second); code != 0 {
			t.Errorf("%s ended with %d", p.name, code)
		}
		if strings.Contains(p.text(), "goroutine ") {
			t.Errorf("%s printed a stack trace:\n%s", p.name, p.tail(40))
		}
	}
}
