package postgres

import "context"

// Chain puts interceptors around each other, the first outermost; nil ones are left out. It is nil where there are none.
func Chain(interceptors ...Interceptor) Interceptor {
	var chain Interceptor
	for i := len(interceptors) - 1; i >= 0; i-- {
		outer, inner := interceptors[i], chain
		switch {
		case outer == nil:
		case inner == nil:
			chain = outer
		default:
			chain = func(ctx context.Context, operation string, call func(context.Context) error) error {
				return outer(ctx, operation, func(ctx context.Context) error { return inner(ctx, operation, call) })
			}
		}
	}
	return chain
}
