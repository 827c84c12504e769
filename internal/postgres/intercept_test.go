package postgres

import (
	"context"
	"slices"
	"testing"
)

func TestChain(t *testing.T) {
	var order []string
	named := func(name string) Interceptor {
		return func(ctx context.Context, operation string, call func(context.Context) error) error {
			order = append(order, name+" "+operation)
			return call(ctx)
		}
	}
	chain := Chain(nil, named("outer"), nil, named("inner"))
	if err := chain(t.Context(), "SELECT", func(context.Context) error { order = append(order, "call"); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"outer SELECT", "inner SELECT", "call"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	if Chain(nil, nil) != nil || Chain() != nil {
		t.Error("a chain of nothing isn't nil")
	}
}
