package redistest

// A Refusal is an error reply of Redis, as a go-redis client returns it.
type Refusal string

// Error returns the reply.
func (r Refusal) Error() string { return string(r) }

// RedisError marks it as an answer of the server.
func (Refusal) RedisError() {}
