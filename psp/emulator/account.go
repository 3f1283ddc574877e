package emulator

import (
	"context"
	"errors"
)

// accountRecord is the company's name for itself.
type accountRecord struct {
	ID string `json:"id"`
}

// Account is what this company is known by, "" until [Core.OpenAccount]. It is in the
// journal, so whoever has noted it can tell that a journal was lost: the company that
// starts without one is another, which has never seen the keys of the first.
func (c *Core) Account() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account
}

// OpenAccount names the company, once and forever. The id is the caller's to make
// unique. It is an error when the company has another name, and when the journal did
// not take it; then the company has none.
func (c *Core) OpenAccount(ctx context.Context, id string) error {
	if id == "" {
		return errors.New("emulator: the account's id is empty")
	}
	switch c.Account() {
	case id:
		return nil
	case "":
		return c.commit(ctx, record{At: c.clock.Now(), Account: &accountRecord{ID: id}})
	}
	return errors.New("emulator: the company has another account")
}
