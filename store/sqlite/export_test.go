package sqlite

// Waiting is how many operations gather for the next transaction.
func (s *Store) Waiting() int { return len(s.writer.todo) }
