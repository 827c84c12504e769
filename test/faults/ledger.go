//go:build linux

package faults

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// idsOfARound keeps the ids of rounds apart.
const idsOfARound = 1_000_000

// Ledger has every row that a server acknowledged, of all rounds.
type Ledger struct {
	first, last []int64 // ranges of ids without a hole
	rounds      int64
}

// Next is the first id of a new round.
func (l *Ledger) Next() int64 {
	l.rounds++
	return l.rounds * idsOfARound
}

// Add notes rows, in the order of their ids.
func (l *Ledger) Add(acks []Ack) {
	for _, ack := range acks {
		if n := len(l.last); n > 0 && l.last[n-1] == ack.ID-1 {
			l.last[n-1] = ack.ID
			continue
		}
		l.first, l.last = append(l.first, ack.ID), append(l.last, ack.ID)
	}
}

// Missing are the rows that a server doesn't have.
func (l *Ledger) Missing(ctx context.Context, conn *pgx.Conn) ([]int64, error) {
	rows, err := conn.Query(ctx, `SELECT first, last FROM unnest($1::bigint[], $2::bigint[]) AS range (first, last)
WHERE (SELECT count(*) FROM public.`+Table+` WHERE id BETWEEN first AND last) <> last - first + 1`, l.first, l.last)
	if err != nil {
		return nil, fmt.Errorf("counting the rows: %w", err)
	}
	type span struct{ First, Last int64 }
	incomplete, err := pgx.CollectRows(rows, pgx.RowToStructByPos[span])
	if err != nil {
		return nil, fmt.Errorf("counting the rows: %w", err)
	}
	var missing []int64
	for _, s := range incomplete {
		rows, err := conn.Query(ctx, `SELECT id FROM generate_series($1::bigint, $2::bigint) AS id
WHERE NOT EXISTS (SELECT FROM public.`+Table+` AS w WHERE w.id = id.id)`, s.First, s.Last)
		if err != nil {
			return nil, fmt.Errorf("listing the missing rows: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return nil, fmt.Errorf("listing the missing rows: %w", err)
		}
		missing = append(missing, ids...)
	}
	slices.Sort(missing)
	return missing, nil
}

// Forget takes rows out that are known to be lost, so that later rounds don't find them again.
func (l *Ledger) Forget(ids []int64) {
	if len(ids) == 0 {
		return
	}
	lost := map[int64]bool{}
	for _, id := range ids {
		lost[id] = true
	}
	old := Ledger{first: l.first, last: l.last}
	l.first, l.last = nil, nil
	for i := range old.first {
		for id := old.first[i]; id <= old.last[i]; id++ {
			if !lost[id] {
				l.Add([]Ack{{ID: id}})
			}
		}
	}
}
