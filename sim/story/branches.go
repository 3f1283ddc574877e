package story

func crashBranches() []scenario  { return nil }
func storeBranches() []scenario  { return nil }
func queueBranches() []scenario  { return nil }
func noticeBranches() []scenario { return nil }
func designBranches() []scenario { return nil }
