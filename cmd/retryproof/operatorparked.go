package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"
)

// operatorParkedCommand lists what was set aside.
type operatorParkedCommand struct {
	Format string `help:"text or json." enum:"text,json" default:"text"`
}

// Run lists events and messages that were set aside.
func (p *operatorParkedCommand) Run(ctx context.Context, c *commandLine, out output) error {
	text, err := c.Operator.call(ctx, http.MethodGet, "/operator/parked", nil)
	if err != nil || p.Format == "json" {
		_, _ = out.stdout.Write(text)
		return err
	}
	var list struct {
		Parked []struct {
			Hop, ID, Group, Reason string
			Attempts               int
			ParkedAt               time.Time `json:"parked_at"`
		}
		Limit int
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("operator: the answer cannot be read: %w", err)
	}
	if len(list.Parked) == 0 {
		fmt.Fprintln(out.stdout, "nothing is set aside")
		return nil
	}
	t := tabwriter.NewWriter(out.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "hop\tid\tgroup\ttries\tsince\treason")
	for _, m := range list.Parked {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", m.Hop, m.ID, m.Group, m.Attempts, m.ParkedAt.Format(time.RFC3339), strings.Join(strings.Fields(m.Reason), " "))
	}
	if len(list.Parked) >= list.Limit {
		fmt.Fprintf(t, "… and perhaps more: the list ends at %d of each hop\n", list.Limit)
	}
	return t.Flush()
}

// operatorRedriveCommand puts back what was set aside.
type operatorRedriveCommand struct {
	Hop string `arg:"" name:"HOP" help:"Where it was set aside: outbox or inbox." enum:"outbox,inbox"`
	ID  string `arg:"" name:"ID" help:"The event's id, as operator parked shows it."`
}

// Run puts it back.
func (r *operatorRedriveCommand) Run(ctx context.Context, c *commandLine, out output) error {
	if r.ID == "" {
		return misuse{errors.New("ID is empty: give the event's id (operator parked shows what is set aside)")}
	}
	_, err := c.Operator.call(ctx, http.MethodPost, "/operator/parked/"+r.Hop+"/"+url.PathEscape(r.ID)+"/redrive", nil)
	if err == nil && r.Hop == "inbox" {
		fmt.Fprintln(out.stdout, "applied:", r.ID)
	} else if err == nil {
		fmt.Fprintln(out.stdout, "put back, a relay sends it:", r.ID)
	}
	return err
}
