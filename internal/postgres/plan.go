package postgres

import (
	"errors"
	"fmt"
)

// Plan says what to change so that what was observed becomes the wish, in order; nothing where it already is. It
// fails, with an *Error, where the name may not be touched or a password is missing. It is a pure function.
func Plan(wish Wish, have State) ([]Change, error) {
	if err := refuse(wish, have); err != nil {
		return nil, err
	}
	role, err := planRole(wish, have)
	if err != nil {
		return nil, err
	}
	return append(role, planDatabase(wish, have.Database)...), nil
}

func planRole(wish Wish, have State) ([]Change, error) {
	role := have.Role
	if role == nil {
		if wish.Password == "" {
			return nil, errorf(KindPasswordNeeded, nil, "The role %q is missing and its password isn't known.", wish.Name)
		}
		return []Change{CreateRole{
			Name: wish.Name, Claim: wish.Claim, ConnectionLimit: wish.ConnectionLimit, Password: wish.Password,
			Grant: grant(wish.Name, have.Admin),
		}}, nil
	}
	var changes []Change
	alter := AlterRole{Name: wish.Name}
	if wish.SetPassword {
		alter.Password = wish.Password
	}
	if role.Comment != wish.Claim.String() {
		// Whoever had the role before may have set any password.
		if wish.Password == "" {
			return nil, errorf(KindPasswordNeeded, nil, "The role %q is new to the resource and its password isn't known.", wish.Name)
		}
		alter.Password = wish.Password
		changes = append(changes, WriteClaim{Name: wish.Name, From: role.Comment, Claim: wish.Claim})
	}
	if !role.Settable && !have.Admin.Superuser {
		changes = append(changes, *grant(wish.Name, have.Admin))
	}
	if !role.Login {
		alter.Login = true
	}
	if role.ConnectionLimit != wish.ConnectionLimit {
		alter.ConnectionLimit = &wish.ConnectionLimit
	}
	if alter != (AlterRole{Name: wish.Name}) {
		changes = append(changes, alter)
	}
	return changes, nil
}

// grant is the membership a weak admin needs to make and drop what the role owns; nil for a superuser.
func grant(name string, admin AdminState) *GrantRole {
	if admin.Superuser {
		return nil
	}
	return &GrantRole{Name: name, SetOnly: admin.splitMembership()}
}

func planDatabase(wish Wish, database *DatabaseState) []Change {
	name := wish.database()
	open := OpenDatabase{Name: name, Owner: wish.Name}
	create := CreateDatabase{Name: name, Owner: wish.Name}
	switch {
	case database == nil:
		return []Change{create, open}
	case database.Invalid:
		return []Change{DropDatabase{Name: name}, create, open}
	case !database.AllowConnections || len(database.Public) > 0:
		return []Change{open}
	}
	return nil
}

// refuse says why a name may not be touched; nil where it may.
func refuse(wish Wish, have State) error {
	if err := refuseReserved(wish, have); err != nil {
		return err
	}
	role, database := have.Role, have.Database
	switch {
	case role == nil && database == nil:
		return nil
	case role == nil:
		return errorf(KindAlreadyExists, nil,
			"A database %q exists and belongs to the role %q. To hand it over, run: CREATE ROLE %s; COMMENT ON ROLE %s IS %s; ALTER DATABASE %s OWNER TO %s",
			wish.database(), database.Owner, identifier(wish.Name), identifier(wish.Name), literal(handOver(wish.Claim)),
			identifier(wish.database()), identifier(wish.Name))
	}
	if err := refuseClaim(wish, role.Comment); err != nil {
		return err
	}
	if database != nil && database.Owner != wish.Name {
		return errorf(KindAlreadyExists, nil,
			"A database %q exists and belongs to the role %q. To hand it over, run: ALTER DATABASE %s OWNER TO %s",
			wish.database(), database.Owner, identifier(wish.database()), identifier(wish.Name))
	}
	return nil
}

func refuseReserved(wish Wish, have State) error {
	name, database := wish.Name, wish.database()
	if err := refuseNames(wish); err != nil {
		return err
	}
	switch role := have.Role; {
	case name == have.Admin.Name:
		return errorf(KindNameReserved, nil, "%q is the controller's own role in PostgreSQL. Make another Database with another spec.name.", name)
	case database == have.Admin.Database:
		return errorf(KindNameReserved, nil, "%q is the database that the controller itself connects to. Make another Database with another spec.name.", database)
	case role != nil && (role.Superuser || role.CreateRole || role.Replication || role.BypassRLS):
		return errorf(KindNameReserved, nil, "%q is a privileged role (SUPERUSER, CREATEROLE, REPLICATION or BYPASSRLS). Make another Database with another spec.name.", name)
	}
	return nil
}

// refuseNames refuses what can't be the name of a role or of a database.
func refuseNames(wish Wish) error {
	if err := RefuseName(wish.Name); err != nil {
		return err
	}
	return RefuseName(wish.database())
}

// RefuseName fails with KindNameReserved where CheckName does.
func RefuseName(name string) error {
	if err := CheckName(name); err != nil {
		return errorf(KindNameReserved, nil, "No role and database can be made: %s. Make another Database with another spec.name.", err)
	}
	return nil
}

func refuseClaim(wish Wish, comment string) error {
	claim, err := ParseClaim(comment)
	switch {
	case errors.Is(err, errNoClaim):
		return errorf(KindAlreadyExists, nil, "A role %q exists that no resource has claimed. To hand it over, run: COMMENT ON ROLE %s IS %s",
			wish.Name, identifier(wish.Name), literal(handOver(wish.Claim)))
	case err != nil:
		return errorf(KindNameConflict, err, "The role %q carries a claim that this version can't read.", wish.Name)
	case claim.fits(wish.Claim), wish.TakeOver != nil && claim == *wish.TakeOver:
		return nil
	}
	return conflict(wish, claim)
}

// conflict says whose the name is, to those who may know: the namespace and name of another namespace's resource are
// in the log only.
func conflict(wish Wish, claim Claim) *Error {
	holder := "a Database of another namespace"
	switch {
	case claim.Cluster != wish.Claim.Cluster:
		holder = "a Database of another Kubernetes cluster"
	case claim.Namespace == wish.Claim.Namespace:
		holder = fmt.Sprintf("the Database %q (%s)", claim.Name, claim.Group)
	}
	e := errorf(KindNameConflict, fmt.Errorf("the role carries the claim %q", claim),
		"The name %q is taken by %s. Make another Database with another spec.name.", wish.Name, holder)
	e.Claim = &claim
	return e
}

// handOver is the line by which an administrator gives an existing role to the resource.
func handOver(claim Claim) string {
	claim.UID = ""
	return claim.String()
}
