// Package check judges the settings of a whole path against each other, from the
// client's patience to the inbox's memory: the failure checklist as a program.
//
// Each package of this module refuses unsafe settings of its own. What shows only
// when two hops are put side by side, such as a guard that forgets sooner than its
// clients stop retrying, no single package can see. [Parse] reads the settings from
// a JSON file, [Config.Report] judges them.
//
// The package promises:
//   - Report names everything that fails at once, each with the formula and its
//     numbers; what "refuse" marks can charge twice or lose, what "warn" marks costs
//     time, alerts or work, or could not be judged;
//   - nothing is passed over silently: a formula whose numbers are not stated is a
//     warning, and the hops that the file leaves out are listed;
//   - Parse loses nothing: an unknown or repeated member, a wrong unit, a number where
//     a duration belongs and anything after the end is an error with its line.
//
// It does not promise that the settings are the ones in use, nor that a path with no
// finding is right: it judges times and memories, not code.
//
// It reads no clock, no network and no file, so there is nothing for a crash to leave.
package check
