package admincli

// A shape says what may stand at a place of a schedule file. The names are
// those of the JSON form of schedule.Schedule; a test holds them together.
type shape struct {
	kind   shapeKind
	fields map[string]*shape // of an object
	elem   *shape            // of a list
}

type shapeKind int

const (
	shapeText    shapeKind = iota // any scalar, taken as it is written
	shapeInt                      // a whole number
	shapeBool                     // true or false
	shapeTextMap                  // names to texts
	shapeJSON                     // anything
	shapeObject
	shapeList
	shapeIgnored // what output adds to a definition: accepted and dropped
)

var (
	textShape    = &shape{kind: shapeText}
	intShape     = &shape{kind: shapeInt}
	boolShape    = &shape{kind: shapeBool}
	textMapShape = &shape{kind: shapeTextMap}
	jsonShape    = &shape{kind: shapeJSON}
	ignoredShape = &shape{kind: shapeIgnored}
	textsShape   = &shape{kind: shapeList, elem: textShape}

	windowShape = &shape{kind: shapeObject, fields: map[string]*shape{
		"calendar": textShape, "dates": textsShape, "weekly": textShape, "cron": textShape, "timezone": textShape,
	}}
	windowsShape = &shape{kind: shapeList, elem: windowShape}

	specShape = &shape{kind: shapeObject, fields: map[string]*shape{
		"cron": textShape, "timezone": textShape, "every": textShape, "anchor": textShape, "at": textsShape, "after": textShape,
	}}

	scheduleShape = &shape{kind: shapeObject, fields: withStatus(map[string]*shape{
		"id": textShape, "description": textShape, "labels": textMapShape, "metadata": jsonShape,
		"expression": textShape, "specs": {kind: shapeList, elem: specShape}, "timezone": textShape,
		"except": windowsShape, "only": windowsShape,
		"starts": textShape, "ends": textShape, "limit": intShape, "jitter": textShape,
		"type": textShape, "queue": textShape, "payload": jsonShape, "payload_base64": textShape,
		"headers": textMapShape, "max_retry": intShape, "timeout": textShape, "retention": textShape,
		"missed": textShape, "catch_up": textShape, "overlap": textShape, "buffer_limit": intShape,
		"effect": textShape, "priority": intShape, "max_failures": intShape, "cool_down": textShape,
		"paused": boolShape,
	})}

	calendarShape = &shape{kind: shapeObject, fields: map[string]*shape{
		"name": textShape, "timezone": textShape, "dates": textsShape, "weekly": textsShape, "cron": textsShape,
		"users": ignoredShape,
	}}

	fileShape = &shape{kind: shapeObject, fields: map[string]*shape{
		"schedules": {kind: shapeList, elem: scheduleShape},
		"calendars": {kind: shapeList, elem: calendarShape},
	}}
)

// withStatus adds the names that output adds to a definition, so that what
// get and list print can be applied.
func withStatus(fields map[string]*shape) map[string]*shape {
	for _, name := range statusNames {
		fields[name] = ignoredShape
	}
	return fields
}

// keys lists the names of an object that a writer may use, without those that
// are dropped.
func (s *shape) keys() []string {
	var names []string
	for name, sub := range s.fields {
		if sub.kind != shapeIgnored {
			names = append(names, name)
		}
	}
	return names
}
