//go:build linux

package faults

import (
	"errors"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/example/databases/api/database/v1"
)

// Table is the table that the Writer writes, a row for each id.
const Table = "writes"

// Login is how to connect to a server.
type Login struct {
	Host                     string
	Port                     uint16
	Database, User, Password string
	// First is the first id that a Writer is to use.
	First int64
}

// Config is pgx's form of it.
func (l Login) Config() (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, errors.New("reading pgx's defaults") // the cause may quote variables of the environment
	}
	config.Host, config.Port = l.Host, l.Port
	config.Database, config.User, config.Password = l.Database, l.User, l.Password
	config.Fallbacks = nil
	return config, nil
}

// application is the login that the Secret gives, but at an address.
func application(secret *corev1.Secret, host string) Login {
	return Login{
		Host: host, Port: databasev1.Port, Database: string(secret.Data["database"]),
		User: string(secret.Data["username"]), Password: string(secret.Data["password"]),
	}
}
