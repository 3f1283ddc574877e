package postgres

// WaitingBegins is how many operations gather for the next group.
func (s *Store) WaitingBegins() int { return s.begins.gathered() }

// WaitingSettles is WaitingBegins for Settle.
func (s *Store) WaitingSettles() int { return s.settles.gathered() }

// HoldBegins lets operations gather until release is called.
func (s *Store) HoldBegins() (release func()) { return s.begins.hold() }

// HoldSettles is HoldBegins for Settle.
func (s *Store) HoldSettles() (release func()) { return s.settles.hold() }

func (g *group) gathered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func (g *group) hold() func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = true
	return g.next
}

// Unsure classifies an error of COMMIT.
func Unsure(err error) error { return unsure(err) }
