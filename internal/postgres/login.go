package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/example/databases/internal/scram"
)

// CheckLogin implements Admin. It authenticates and closes; no statement runs.
func (s *Server) CheckLogin(ctx context.Context, role, database, password string) (bool, error) {
	if err := s.breaker.refusal(); err != nil {
		return true, err
	}
	select {
	case s.login <- struct{}{}:
	case <-ctx.Done():
		return true, errorf(KindFailed, ctx.Err(), "The login could not be checked in time.")
	}
	defer func() { <-s.login }()

	dsn, _ := s.source.current()
	config := dsn.config.Copy()
	config.User, config.Password, config.Database = role, scram.Prepare(password), database
	err := s.intercept(ctx, "LOGIN", func(ctx context.Context) error {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	switch {
	case err == nil:
		return true, nil
	case sqlState(err) == codeInvalidPassword:
		return false, nil
	}
	return true, errorf(KindFailed, err, "The login of the role %q could not be checked.", role)
}
