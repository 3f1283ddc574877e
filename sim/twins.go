package sim

import (
	"fmt"
	"strings"
)

// Twins are the rules that can be switched off, in a fixed order.
func Twins() []Twin { return nil }

// TwinOf returns the twin of a rule; the error lists the rules.
func TwinOf(rule string) (Twin, error) {
	var names []string
	for _, t := range Twins() {
		if t.Rule == rule {
			return t, nil
		}
		names = append(names, t.Rule)
	}
	return Twin{}, fmt.Errorf("there is no rule %q; the rules are %s", rule, strings.Join(names, ", "))
}
