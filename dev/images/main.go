package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "names of `images`, separated by commas; all unless given")
	out := flag.String("out", "", "`folder` to put the archives into; they stay in the cache unless given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only, out string, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	chosen, err := choose(archives, only)
	if err != nil {
		return err
	}
	c, err := openCache(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	b, err := newBuilder(ctx, c)
	if err != nil {
		return err
	}
	for _, a := range chosen {
		start := time.Now()
		path, made, err := b.archive(ctx, a)
		if err != nil {
			return fmt.Errorf("making %s: %w", a.name, err)
		}
		if made {
			say("%s made in %.1f s", a.name, time.Since(start).Seconds())
		}
		if out != "" {
			if path, err = export(path, out, a.name); err != nil {
				return err
			}
		}
		fmt.Println(path)
	}
	return nil
}

// choose finds the archives that hold the named images.
func choose(all []archive, only string) ([]archive, error) {
	if only == "" {
		return all, nil
	}
	var chosen []archive
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(all, func(a archive) bool { return a.name == name || slices.Contains(a.tags(), name) })
		if i < 0 {
			var known []string
			for _, a := range all {
				known = append(known, a.tags()...)
			}
			return nil, fmt.Errorf("no image %q; there are %s", name, strings.Join(known, ", "))
		}
		if !slices.ContainsFunc(chosen, func(a archive) bool { return a.name == all[i].name }) {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "images: "+format+"\n", args...) }
