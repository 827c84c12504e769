package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Ping asks the server for an answer, over a pooled connection. Where it can't be reached, those who were to be notified are.
func (s *Server) Ping(ctx context.Context) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		limited, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		err := s.intercept(limited, "PING", conn.Ping)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", errSilent, err)
		}
		return err
	})
}
