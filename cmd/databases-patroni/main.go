// Command databases-patroni starts Patroni in the user's own image of PostgreSQL. Package internal/launcher says how.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/launcher/roles"
)

const usage = `usage: databases-patroni COMMAND

  install DEST    copy Patroni and this program into a folder that the pod's containers share
  run             check the image and the data, then run Patroni
  inspect         report what the image holds, to stdout and the termination log
  ctl ARGS...     patronictl of this pod's Patroni, for people
  credentials ACTION ROLE SCOPE
                  Patroni's callback: give the roles the Secret's passwords
`

func main() {
	status, err := command(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "databases-patroni:", err)
	}
	os.Exit(status)
}

func command(ctx context.Context, args []string) (int, error) {
	switch {
	case len(args) == 2 && args[0] == "install":
		return status(launcher.Install(args[1]))
	case len(args) == 1 && args[0] == "run":
		settings, err := launcher.ReadSettings(os.Getenv)
		if err != nil {
			return 1, err
		}
		return launcher.Run(ctx, settings, os.Stderr)
	case len(args) == 1 && args[0] == "inspect":
		return status(inspect(ctx))
	case len(args) >= 1 && args[0] == "ctl":
		return status(launcher.Ctl(args[1:], os.Getenv))
	case len(args) == 4 && args[0] == "credentials":
		return status(roles.Callback(ctx, args[1], args[2], os.Getenv))
	case len(args) == 1 && (args[0] == "help" || args[0] == "--help" || args[0] == "-h"):
		fmt.Print(usage)
		return 0, nil
	}
	fmt.Fprint(os.Stderr, usage)
	return 2, nil
}

func status(err error) (int, error) {
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// inspect ends well also where the image is refused: the report says so.
func inspect(ctx context.Context) error {
	found, err := launcher.Inspect(ctx)
	if err == nil {
		_, err = launcher.User()
	}
	var report any = found
	var refusal *launcher.Refusal
	if errors.As(err, &refusal) {
		report = refusal
	} else if err != nil {
		return err
	}
	log := os.Getenv(launcher.EnvTerminationLog)
	if log == "" {
		log = launcher.DefaultTerminationLog
	}
	return errors.Join(json.NewEncoder(os.Stdout).Encode(report), launcher.Report(log, report))
}
