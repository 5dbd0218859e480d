package schedule

// Normalize fills in the defaults.
func (s *Schedule) Normalize() {}

// Validate returns all *FieldErrors of the definition, joined.
func (s Schedule) Validate() error { return s.ID.Validate() }
