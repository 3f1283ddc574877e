package postgres

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
	readClaimSQL = "SELECT " + claimColumns + " FROM claims WHERE scope_id = $1"
	// newClaimSQL writes a claim that is absent or has expired; a live one is found
	// first and then not even locked.
	newClaimSQL = fmt.Sprintf(`INSERT INTO claims (%[1]s) SELECT %[2]s
		WHERE NOT EXISTS (SELECT FROM claims WHERE scope_id = $1::text AND (expires_at IS NULL OR expires_at >= $%[3]d::bigint))
		ON CONFLICT (scope_id) DO UPDATE SET %[4]s WHERE claims.expires_at < $%[3]d::bigint`,
		claimColumns, marks(1, record.ClaimColumns), len(record.ClaimColumns)+1, excluded(record.ClaimColumns[1:]))
	adoptClaimSQL = `UPDATE claims SET state = $2, owner = $3, lease_until = $4, expires_at = NULL WHERE scope_id = $1`
	completeSQL   = `UPDATE claims SET state = 'COMPLETE', answer = $3::bytea, expires_at = $4::bigint
		WHERE scope_id = $1::text AND owner = $2::text AND ` + completable
)

const releaseClaimSQL = "DELETE FROM claims WHERE scope_id = $1 AND state = 'IN_PROGRESS' AND owner = $2"

func releaseClaimArgs(r effect.Release) []any { return []any{string(r.Scope.ID()), r.Owner} }

// ClaimKey is the claim part of Begin.
func (e effects) ClaimKey(ctx context.Context, b effect.Begin) (*effect.Claim, error) {
	if err := record.CheckBegin(b); err != nil {
		return nil, err
	}
	args, err := record.ClaimArgs(record.NewClaim(b))
	if err != nil {
		return nil, err
	}
	args = append(args, record.Micros(b.Now))
	for range 3 {
		c, err := e.LookKey(ctx, effect.Look{Scope: b.Scope, Now: b.Now})
		if err != nil || c != nil {
			return c, err
		}
		claimed, err := e.s.changes(ctx, newClaimSQL, args...)
		if err != nil {
			return nil, err
		}
		if claimed {
			fresh := record.NewClaim(b)
			return &fresh, nil
		}
	}
	return nil, errMoving
}

// AdoptKey is the claim part of Adopt.
func (e effects) AdoptKey(ctx context.Context, a effect.Adopt) (*effect.Claim, error) {
	if err := record.CheckAdopt(a); err != nil {
		return nil, err
	}
	err := e.s.inTx(ctx, func(ctx context.Context, q query) error { return adoptClaim(ctx, q, a) })
	if err != nil && !errors.Is(err, errRefused) {
		return nil, err
	}
	return e.LookKey(ctx, effect.Look{Scope: a.Scope, Now: a.Now})
}

// adoptClaim writes the claim part of an adoption, or refuses.
func adoptClaim(ctx context.Context, q query, a effect.Adopt) error {
	id := string(a.Scope.ID())
	stored, err := readClaim(ctx, q, id, forUpdate)
	if err != nil {
		return err
	}
	live := record.Live(stored, effect.Look{Now: a.Now})
	next, allowed := record.AdoptClaim(live, a)
	switch {
	case !allowed:
		return errRefused
	case next == nil:
		return nil
	case live != nil:
		return oneRow(q.exec(ctx, adoptClaimSQL, id, string(next.State), next.Owner, record.Nullable(next.Until)))
	}
	args, err := record.ClaimArgs(*next)
	if err != nil {
		return err
	}
	return oneRow(q.exec(ctx, newClaimSQL, append(args, record.Micros(a.Now))...))
}

// readClaim reads a claim in a transaction, an expired one too; nil when absent.
func readClaim(ctx context.Context, q query, id, lock string) (*effect.Claim, error) {
	var c record.ClaimScan
	err := q.row(ctx, readClaimSQL+lock, id).Scan(c.Dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Claim()
}

func completeArgs(c effect.Completion) ([]any, error) {
	answer, err := record.EncodeAnswer(c.Answer)
	if err != nil {
		return nil, err
	}
	return []any{string(c.Scope.ID()), c.Owner, bytesOrNull(answer), record.Nullable(c.ExpiresAt)}, nil
}

// CompleteKey is Complete.
func (e effects) CompleteKey(ctx context.Context, c effect.Completion) (bool, error) {
	args, err := completeArgs(c)
	if err != nil {
		return false, err
	}
	changed, err := e.s.changes(ctx, completeSQL, args...)
	if err != nil || changed {
		return changed, err
	}
	return e.holds(ctx, c)
}

// holds reports whether the claim has the final answer already.
func (e effects) holds(ctx context.Context, c effect.Completion) (bool, error) {
	answer, err := record.EncodeAnswer(c.Answer)
	if err != nil || answer == nil {
		return false, err
	}
	stored, err := e.readKey(ctx, string(c.Scope.ID()))
	return err == nil && record.Holds(stored, c, answer), err
}

// completeWithin is Complete in a transaction that is open already.
func completeWithin(ctx context.Context, q query, c effect.Completion) (bool, error) {
	args, err := completeArgs(c)
	if err != nil {
		return false, err
	}
	n, err := q.exec(ctx, completeSQL, args...)
	if err != nil || n > 0 || c.Answer == nil {
		return n > 0, err
	}
	stored, err := readClaim(ctx, q, string(c.Scope.ID()), "")
	if err != nil {
		return false, err
	}
	answer, err := record.EncodeAnswer(c.Answer)
	return err == nil && record.Holds(stored, c, answer), err
}

// ReleaseKey is the claim part of Release.
func (e effects) ReleaseKey(ctx context.Context, r effect.Release) error {
	return e.s.write(ctx, statement{releaseClaimSQL, releaseClaimArgs(r), noRows})
}

// LookKey reads the claim.
func (e effects) LookKey(ctx context.Context, l effect.Look) (*effect.Claim, error) {
	c, err := e.readKey(ctx, string(l.Scope.ID()))
	return record.Live(c, l), err
}

func (e effects) readKey(ctx context.Context, id string) (*effect.Claim, error) {
	var c record.ClaimScan
	var found bool
	err := e.s.read(ctx, statement{readClaimSQL, []any{id}, firstRow(&found, c.Dest()...)})
	if err != nil || !found {
		return nil, err
	}
	claim, err := c.Claim()
	return claim, notDone(err)
}
