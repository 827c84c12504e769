package fault

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/databases/internal/postgres"
)

// codeSerializationFailure is PostgreSQL's word for a transaction that lost a race and may be tried again.
const codeSerializationFailure = "40001"

// Admin puts the scenarios that contexts bring along around a server's operations.
func Admin(next postgres.Admin) postgres.Admin { return admin{next} }

type admin struct{ next postgres.Admin }

// Provision implements postgres.Admin.
func (a admin) Provision(ctx context.Context, wish postgres.Wish) (outcome postgres.Outcome, err error) {
	err = server(ctx, OperationProvision, func(ctx context.Context) error {
		outcome, err = a.next.Provision(ctx, wish)
		return err
	})
	return outcome, err
}

// Drop implements postgres.Admin.
func (a admin) Drop(ctx context.Context, name string, claim postgres.Claim) error {
	return server(ctx, OperationDrop, func(ctx context.Context) error { return a.next.Drop(ctx, name, claim) })
}

// CheckLogin implements postgres.Admin.
func (a admin) CheckLogin(ctx context.Context, role, database, password string) (ok bool, err error) {
	ok = true // false only where the server said so
	err = server(ctx, OperationCheckLogin, func(ctx context.Context) error {
		ok, err = a.next.CheckLogin(ctx, role, database, password)
		return err
	})
	return ok, err
}

// server makes a call of the Admin, whose errors are all of one type.
func server(ctx context.Context, operation string, call func(context.Context) error) error {
	injected, err := rehearse(ctx, operation, call)
	switch {
	case !injected:
		return err
	case errors.Is(err, ErrConflict):
		return &postgres.Error{
			Kind:    postgres.KindFailed,
			Message: fmt.Sprintf("The Database's failure scenario makes %s lose a race (SQLSTATE %s).", operation, codeSerializationFailure),
			Err:     errors.Join(err, &pgconn.PgError{Severity: "ERROR", Code: codeSerializationFailure, Message: "could not serialize access"}),
		}
	}
	return &postgres.Error{
		Kind: postgres.KindFailed, Message: fmt.Sprintf("The Database's failure scenario makes %s fail.", operation), Err: err,
	}
}

// Secrets is a credentials.Interceptor: it puts the scenarios that contexts bring along around the Secret's operations.
func Secrets(ctx context.Context, operation string, call func(context.Context) error) error {
	injected, err := rehearse(ctx, operation, call)
	if injected && errors.Is(err, ErrConflict) {
		return apierrors.NewConflict(corev1.Resource("secrets"), "of the Database", err)
	}
	return err
}

// rehearse makes the call, or fails it as the context's scenario says; injected is false where the error is the call's
// own, which may be another decorator's.
func rehearse(ctx context.Context, operation string, call func(context.Context) error) (injected bool, err error) {
	made := false
	err = Decorator{byScenario{}}.Call(ctx, operation, func(ctx context.Context) error {
		made = true
		return call(ctx)
	})
	return !made, err
}
