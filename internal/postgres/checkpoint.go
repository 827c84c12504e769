package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Checkpoint writes all changes to the data files, so that a restart has little to replay. Only a superuser may, or,
// from PostgreSQL 15 on, a member of pg_checkpoint.
func (s *Server) Checkpoint(ctx context.Context) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return s.send(ctx, conn, failure{}, Statement{"CHECKPOINT", "CHECKPOINT"})
	})
}
