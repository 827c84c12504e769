package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Claimed is a role with the claim it carries.
type Claimed struct {
	Role  string
	Claim Claim
}

// Claims lists the roles that resources of a cluster claim.
func (s *Server) Claims(ctx context.Context, cluster string) ([]Claimed, error) {
	var found []Claimed
	const summary = "SELECT pg_roles pg_shdescription"
	err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		found = nil
		rows, err := conn.Query(ctx, `SELECT r.rolname::text, c.description
			FROM pg_roles r JOIN pg_shdescription c ON c.objoid = r.oid AND c.classoid = 1260
			WHERE c.description LIKE $1 ORDER BY 1`, pgx.QueryExecModeExec, claimMark+"%")
		if err != nil {
			return s.explain(err, failure{statement: Statement{Summary: summary}})
		}
		var role, comment string
		_, err = pgx.ForEachRow(rows, []any{&role, &comment}, func() error {
			if claim, err := ParseClaim(comment); err == nil && claim.Cluster == cluster {
				found = append(found, Claimed{Role: role, Claim: claim})
			}
			return nil
		})
		if err != nil {
			return s.explain(err, failure{statement: Statement{Summary: summary}})
		}
		return nil
	})
	return found, err
}

// Adopt writes a claim on an existing role, for an administrator. A role that carries another claim than from is
// refused with KindNameConflict; from is nil for a role that carries none. Claiming once more is no error.
func (s *Server) Adopt(ctx context.Context, name string, claim Claim, from *Claim) error {
	if err := errors.Join(CheckName(name), claim.Validate()); err != nil {
		return errorf(KindFailed, err, "The claim can't be written.")
	}
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		have, err := s.observe(ctx, conn, name, name)
		if err != nil {
			return err
		}
		if err := refuseReserved(Wish{Name: name}, have); err != nil {
			return err
		}
		if have.Role == nil {
			return errorf(KindFailed, nil, "There is no role %q; make it, and its database, first.", name)
		}
		current, err := ParseClaim(have.Role.Comment)
		switch {
		case err == nil && current.sameResource(claim):
			return nil
		case err == nil && (from == nil || current != *from):
			return &Error{Kind: KindNameConflict, Claim: &current,
				Message: errorf(KindNameConflict, nil, "The role %q is claimed already: %s", name, current).Message}
		case err != nil && !errors.Is(err, errNoClaim):
			return errorf(KindNameConflict, err, "The role %q carries a claim that this version can't read.", name)
		}
		return s.writeClaim(ctx, conn, WriteClaim{Name: name, From: have.Role.Comment, Claim: claim}, have.Admin)
	})
}
