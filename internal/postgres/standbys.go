package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// standbysSQL counts from what a standby has on its disk: that is what a failover keeps. Its one row without a name is
// for a server without standbys, which would otherwise not be asked for its position, and answer also in recovery.
const standbysSQL = `
SELECT coalesce(application_name, ''), greatest(max(pg_wal_lsn_diff(here.lsn, flush_lsn)), 0)::bigint
FROM (SELECT pg_current_wal_lsn() AS lsn) AS here
LEFT JOIN pg_stat_replication ON state = 'streaming' AND flush_lsn IS NOT NULL GROUP BY application_name`

// Standbys are those that stream from the server, by the name that they give themselves, each with the bytes of the
// write-ahead log that it lacks. Only a superuser, or a member of pg_monitor, sees them. A server that is a standby itself
// gives an error.
func (s *Server) Standbys(ctx context.Context) (map[string]int64, error) {
	standbys := map[string]int64{}
	err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return s.intercept(ctx, "SELECT pg_stat_replication", func(ctx context.Context) error {
			rows, err := conn.Query(ctx, standbysSQL)
			if err != nil {
				return err
			}
			var name string
			var lag int64
			_, err = pgx.ForEachRow(rows, []any{&name, &lag}, func() error {
				if name != "" {
					standbys[name] = lag
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, errorf(KindFailed, err, "The server's standbys could not be read.")
	}
	return standbys, nil
}
