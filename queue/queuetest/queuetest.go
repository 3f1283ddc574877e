// Package queuetest judges queue drivers: one suite, the same cases for all.
//
// [Run] runs it as subtests. What is right is the same for every driver; a
// driver's [Traits] only say how long a test has to wait and how exactly a
// moment can be met. [Judge] runs the same cases and returns what failed, so
// that a suite can be judged by drivers that are wrong on purpose
// (queue/queuetest/saboteurs).
//
// The suite promises to reject each of the saboteurs. It does not prove a driver
// right: what happens when a disk loses its cache, or a network its packets, it
// cannot see.
package queuetest

import (
	"testing"
	"time"

	"github.com/retryproof/retryproof/queue"
)

// Windows are the times that a case needs the driver to be opened with.
type Windows struct {
	// DedupWindow is how long the queue remembers an id.
	DedupWindow time.Duration
	// Visibility is how long a delivery is its receiver's alone.
	Visibility time.Duration
}

// Driver is one opened queue, empty and used by nobody else.
type Driver struct {
	// Queue is what is judged.
	Queue queue.Queue
	// Advance moves the driver's virtual time. Nil means real time: then the suite
	// polls until what it waits for has happened.
	Advance func(d time.Duration)
	// Reopen stops the queue as a crash or a shutdown would and opens it again on
	// what is on disk. Nil means that the driver outlives no restart, and the cases
	// about restarts are skipped.
	Reopen func(t testing.TB) queue.Queue
}

// Open returns a fresh driver with the given windows. It cleans up with
// t.Cleanup.
type Open func(t testing.TB, w Windows) Driver

// Traits say what the suite must know of a driver to test it. The zero value
// fits a driver in virtual time.
type Traits struct {
	// Short is the visibility timeout of the cases that wait for its end, and a
	// third of their dedup window. Defaults to 1 second.
	Short time.Duration
	// Slack is how much too early or too late a moment may be met without being
	// wrong: the resolution of the driver's timers. Defaults to 0.
	Slack time.Duration
	// Patience is how long after its moment something that must happen is still
	// waited for. Defaults to 0, which asks for it at the very moment.
	Patience time.Duration
	// Settle is how long the suite watches that nothing happens. Defaults to 0, one
	// look.
	Settle time.Duration
	// TooLargeBytes is a body that the driver must refuse. Defaults to 0, which
	// skips the case: the driver takes bodies of any size.
	TooLargeBytes int
	// DedupPerGroup says that an id is unique in its group instead of the queue.
	// Defaults to false.
	DedupPerGroup bool
	// SharedLanes says that the driver may map several groups to one lane, so that
	// a blocked group holds back those that share its lane. At least half of many
	// other groups must go on all the same. Defaults to false: all must.
	SharedLanes bool
}

func (tr Traits) withDefaults() Traits {
	if tr.Short == 0 {
		tr.Short = time.Second
	}
	return tr
}

// Case is one promise of package queue.
type Case struct {
	// Name states the promise.
	Name string
	run  func(r *run)
}

// Run judges the driver with a new queue for each case.
func (c Case) Run(t testing.TB, tr Traits, open Open) {
	t.Helper()
	c.run(&run{TB: t, tr: tr.withDefaults(), openDriver: open})
}

// Cases returns all cases.
func Cases() []Case {
	return []Case{
		{"AckedSendIsDelivered", ackedSendIsDelivered},
		{"FinishedMessageNeverComesAgain", finishedMessageNeverComesAgain},
		{"NothingDueIsNoError", nothingDueIsNoError},
		{"ReceiveKeepsTheLimit", receiveKeepsTheLimit},
		{"EndedContextLosesNothing", endedContextLosesNothing},
		{"BodiesArriveByteForByte", bodiesArriveByteForByte},
		{"OddNamesStayApart", oddNamesStayApart},
		{"NamelessMessageIsRefusedForGood", namelessMessageIsRefusedForGood},
		{"TooLargeIsRefusedForGoodAndNotesNoID", tooLargeIsRefusedForGoodAndNotesNoID},

		{"RepeatIsDroppedAndReportsSuccess", repeatIsDroppedAndReportsSuccess},
		{"WindowStartsAtTheFirstSendAndRepeatsDoNotExtendIt", windowIsNotExtended},
		{"IDIsRememberedAfterFinish", idIsRememberedAfterFinish},
		{"TheIDAloneDecides", theIDAloneDecides},
		{"DedupScopeHolds", dedupScopeHolds},
		{"ConcurrentSendsOfOneIDGiveOneMessage", concurrentSendsOfOneIDGiveOneMessage},

		{"GroupKeepsItsOrder", groupKeepsItsOrder},
		{"GroupKeepsItsOrderUnderRedelivery", groupKeepsItsOrderUnderRedelivery},
		{"OneOfAGroupAtATime", oneOfAGroupAtATime},
		{"OtherGroupsGoOnWhileOneIsBlocked", otherGroupsGoOn},
		{"ManyReceiversKeepEveryGroupInOrder", manyReceiversKeepOrder},

		{"UnfinishedMessageComesAgainAfterTheTimeout", comesAgainAfterTheTimeout},
		{"AttemptCountsDeliveries", attemptCountsDeliveries},
		{"StaleReceiptChangesNothing", staleReceiptChangesNothing},
		{"UsedReceiptChangesNothing", usedReceiptChangesNothing},
		{"RetryDelaysTheGroup", retryDelaysTheGroup},
		{"RetryDelaysNoOtherGroup", retryDelaysNoOtherGroup},
		{"RetryWithoutDelayIsDueAtOnce", retryWithoutDelayIsDueAtOnce},

		{"RestartKeepsMessages", restartKeepsMessages},
		{"RestartKeepsTheDedupIDs", restartKeepsTheDedupIDs},
	}
}

// Run judges a driver: each case is a parallel subtest.
func Run(t *testing.T, tr Traits, open Open) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, tr, open)
		})
	}
}
