package postgres

// WaitingBegins is how many operations gather for the next group.
func (s *Store) WaitingBegins() int {
	s.begins.mu.Lock()
	defer s.begins.mu.Unlock()
	return len(s.begins.waiting)
}
