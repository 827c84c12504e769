package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Ping asks the server for an answer, over a pooled connection. Where it can't be reached, those who were to be notified are.
func (s *Server) Ping(ctx context.Context) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		return s.intercept(ctx, "PING", conn.Ping)
	})
}
