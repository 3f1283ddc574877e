package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/internal/record"
)

var (
	claimColumns = strings.Join(record.ClaimColumns, ", ")
	readClaimSQL = "SELECT " + claimColumns + " FROM claims WHERE scope_id = ?"
	// putClaimSQL replaces the claim whatever it is; newClaimSQL only one that has
	// expired, and is given the time once more.
	putClaimSQL = fmt.Sprintf("INSERT INTO claims (%s) VALUES (%s) ON CONFLICT (scope_id) DO UPDATE SET %s",
		claimColumns, marks(len(record.ClaimColumns)), excluded(record.ClaimColumns[1:]))
	newClaimSQL = putClaimSQL + " WHERE claims.expires_at < ?"
)

func excluded(columns []string) string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, c+" = excluded."+c)
	}
	return strings.Join(parts, ", ")
}

// insertClaim writes the claim if it is absent or expired, and reports whether it
// did.
func insertClaim(ctx context.Context, q query, b effect.Begin) (bool, error) {
	args, err := record.ClaimArgs(record.NewClaim(b))
	if err != nil {
		return false, err
	}
	n, err := q.exec(ctx, newClaimSQL, append(args, record.Micros(b.Now))...)
	return n > 0, err
}

func putClaim(ctx context.Context, q query, c effect.Claim) error {
	args, err := record.ClaimArgs(c)
	if err != nil {
		return err
	}
	_, err = q.exec(ctx, putClaimSQL, args...)
	return err
}

// readClaim reads the claim, an expired one too.
func readClaim(ctx context.Context, q query, scopeID string) (*effect.Claim, error) {
	var c record.ClaimScan
	err := q.row(ctx, readClaimSQL, scopeID).Scan(c.Dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Claim()
}

func releaseClaim(ctx context.Context, q query, r effect.Release) error {
	_, err := q.exec(ctx, "DELETE FROM claims WHERE scope_id = ? AND state = 'IN_PROGRESS' AND owner = ?", string(r.Scope.ID()), r.Owner)
	return err
}

const completeSQL = `UPDATE claims SET state = 'COMPLETE', answer = ?, expires_at = ?
	WHERE scope_id = ? AND owner = ? AND (state = 'IN_PROGRESS' OR (state = 'COMPLETE' AND answer IS NULL))`

// complete writes a completion; it reports whether the claim has it now.
func complete(ctx context.Context, q query, done effect.Completion) (bool, error) {
	answer, err := record.EncodeAnswer(done.Answer)
	if err != nil {
		return false, err
	}
	id := string(done.Scope.ID())
	n, err := q.exec(ctx, completeSQL, answer, record.Nullable(done.ExpiresAt), id, done.Owner)
	if err != nil || n > 0 {
		return n > 0, err
	}
	c, err := readClaim(ctx, q, id)
	if err != nil {
		return false, err
	}
	return record.Holds(c, done, answer), nil
}

// ClaimKey is the claim part of Begin.
func (e effects) ClaimKey(ctx context.Context, b effect.Begin) (*effect.Claim, error) {
	if err := record.CheckBegin(b); err != nil {
		return nil, err
	}
	look := effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now}
	c, err := e.LookKey(ctx, look)
	if err != nil || c != nil {
		return c, err
	}
	err = e.s.write(ctx, func(ctx context.Context, q query) error {
		if _, err := insertClaim(ctx, q, b); err != nil {
			return err
		}
		c, err = readClaim(ctx, q, string(b.Scope.ID()))
		return err
	})
	return orNothing(c, err)
}

// AdoptKey is the claim part of Adopt.
func (e effects) AdoptKey(ctx context.Context, a effect.Adopt) (*effect.Claim, error) {
	if err := record.CheckAdopt(a); err != nil {
		return nil, err
	}
	var c *effect.Claim
	err := e.s.write(ctx, func(ctx context.Context, q query) error {
		stored, err := readClaim(ctx, q, string(a.Scope.ID()))
		if err != nil {
			return err
		}
		c = record.Live(stored, effect.Look{Now: a.Now})
		write, ok := adoptClaim(c, a)
		if !ok {
			return nil
		}
		if err := write(ctx, q); err != nil {
			return err
		}
		c, err = readClaim(ctx, q, string(a.Scope.ID()))
		return err
	})
	return orNothing(c, err)
}

// CompleteKey is Complete.
func (e effects) CompleteKey(ctx context.Context, c effect.Completion) (bool, error) {
	var ok bool
	err := e.s.write(ctx, func(ctx context.Context, q query) (err error) {
		ok, err = complete(ctx, q, c)
		return err
	})
	return ok && err == nil, err
}

// ReleaseKey is the claim part of Release.
func (e effects) ReleaseKey(ctx context.Context, r effect.Release) error {
	return e.s.write(ctx, func(ctx context.Context, q query) error { return releaseClaim(ctx, q, r) })
}

// LookKey reads the claim.
func (e effects) LookKey(ctx context.Context, l effect.Look) (*effect.Claim, error) {
	var c *effect.Claim
	err := e.s.read(ctx, func(ctx context.Context, q query) (err error) {
		c, err = readClaim(ctx, q, string(l.Scope.ID()))
		return err
	})
	return orNothing(record.Live(c, l), err)
}
