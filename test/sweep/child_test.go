package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/example/databases/internal/fault"
	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/settings"
)

// childVariable makes the test binary run a controller instead of tests; its value is a childConfig as JSON.
const childVariable = "SWEEP_CHILD"

type childConfig struct {
	Kubeconfig, Namespace, DSNFile, Host string
	Port                                 int
	At                                   int
	Action                               fault.Action
	// PointsFile gets a line for each call.
	PointsFile string
}

// runChild is a controller with one fault; it runs until SIGTERM.
func runChild(value string) int {
	var c childConfig
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	points, err := os.OpenFile(c.PointsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	kube, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	kube.QPS = -1
	injector := &fault.Injector{At: c.At, Action: c.Action, OnCall: func(n int, name string) {
		fmt.Fprintln(points, strconv.Itoa(n)+" "+name)
	}}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	manager.Logger(log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = manager.Run(ctx, manager.Options{
		Settings: settings.Settings{
			Kube: kube, ControllerName: "databases-controller", Namespace: c.Namespace, Workers: 1, Resync: time.Hour,
			Postgres: &settings.Postgres{AdminDSNFile: c.DSNFile, Host: c.Host, Port: c.Port},
		},
		Log: log, SQL: injector.SQL, HTTP: injector.HTTP,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
