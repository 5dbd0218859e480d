package storm

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

// specimen is what an asynq server puts into the context of a handler. asynq
// keeps the type to itself, so one is taken from a real server, once, and the
// model of the server fills in copies.
var specimen struct {
	key   any // the context key
	value any // the value under it
}

// TestMain takes the specimen.
func TestMain(m *testing.M) {
	if err := takeSpecimen(); err != nil {
		fmt.Fprintln(os.Stderr, "storm: what asynq puts into a handler's context could not be learnt:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prober records the key that it is asked for.
type prober struct{ context.Context }

// Value records the key.
func (prober) Value(key any) any {
	specimen.key = key
	return nil
}

func takeSpecimen() error {
	asynq.GetTaskID(prober{context.Background()})
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Close()
	client := redis.NewClient(redistest.Options(server.Addr()))
	defer func() { _ = client.Close() }() // nothing is left to say
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask("specimen", nil)); err != nil {
		return err
	}
	got := make(chan any, 1)
	worker := asynq.NewServerFromRedisClient(client, asynq.Config{LogLevel: asynq.FatalLevel})
	err := worker.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		got <- ctx.Value(specimen.key)
		return nil
	}))
	if err != nil {
		return err
	}
	defer worker.Shutdown()
	timeout, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	select {
	case specimen.value = <-got:
	case <-timeout.Done():
		return timeout.Err()
	}
	for _, name := range []string{"id", "maxRetry", "retryCount", "qname"} {
		if !reflect.ValueOf(specimen.value).FieldByName(name).IsValid() {
			return fmt.Errorf("%T has no field %s", specimen.value, name)
		}
	}
	return nil
}

// delivered returns the context of a handler that runs the task.
func delivered(ctx context.Context, t *task) context.Context {
	value := reflect.New(reflect.TypeOf(specimen.value)).Elem()
	set := func(name string, to any) {
		f := value.FieldByName(name)
		reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(to))
	}
	set("id", t.info.ID)
	set("maxRetry", t.info.MaxRetry)
	set("retryCount", t.retried)
	set("qname", t.info.Queue)
	return context.WithValue(ctx, specimen.key, value.Interface())
}
