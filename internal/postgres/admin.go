package postgres

import "context"

// Admin is what a controller asks of a PostgreSQL server. Every call is safe to repeat, whatever became of the call
// before. Errors are of type *Error.
type Admin interface {
	// Provision brings the role and the database to the wish and says what it changed. It changes nothing where it
	// refuses (KindNameReserved, KindAlreadyExists, KindNameConflict).
	Provision(ctx context.Context, wish Wish) (Outcome, error)

	// Drop drops the database of that name with its sessions, then the role, if the role carries the claim; what is
	// absent or not claimed is left as it is, without an error.
	Drop(ctx context.Context, name string, claim Claim) error

	// CheckLogin reports whether the server lets the role log in to the database with the password. It is false only
	// where the server said that the password is wrong. One check runs at a time.
	CheckLogin(ctx context.Context, role, database, password string) (bool, error)
}

// NoConnectionLimit is PostgreSQL's value for a role that may have any number of connections.
const NoConnectionLimit = -1

// Wish is what a role and its database should be.
type Wish struct {
	// Name is the role's name, and the database's where Database is empty.
	Name string
	// Database is the database's name where it isn't the role's.
	Database string
	// Claim is written on the role; its UID is set.
	Claim Claim
	// ConnectionLimit is the role's, or NoConnectionLimit.
	ConnectionLimit int
	// Password is the role's password. A caller that believes it set already may leave it out; where it is needed
	// all the same, Provision changes nothing and fails with KindPasswordNeeded.
	Password string
	// SetPassword says that the role may have another password than Password.
	SetPassword bool
	// TakeOver is the claim of a resource that is gone, which Claim may replace; nil where there is none.
	TakeOver *Claim
}

func (w Wish) database() string {
	if w.Database != "" {
		return w.Database
	}
	return w.Name
}

// Outcome is what Provision changed.
type Outcome struct {
	// Changes names the changes in the order they were made, for logs and tests; none where everything was as
	// wished.
	Changes []string
	// RoleCreated and DatabaseCreated say what didn't exist before.
	RoleCreated, DatabaseCreated bool
}

func (o *Outcome) add(c Change) {
	o.Changes = append(o.Changes, c.String())
	switch c.(type) {
	case CreateRole:
		o.RoleCreated = true
	case CreateDatabase:
		o.DatabaseCreated = true
	}
}
