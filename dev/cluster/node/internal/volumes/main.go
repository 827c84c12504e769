package volumes

import (
	"context"
	"flag"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// Main runs the provisioner until a signal comes.
func Main(arguments []string) error {
	flags := flag.NewFlagSet("volumes", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the `file` that says where the API server is")
	node := flags.String("node", "", "the `name` of the node whose volumes these are")
	folder := flags.String("folder", "", "the `folder` for the volumes' files and mounts")
	health := flags.String("health", "", "the `address` that answers health checks")
	name := flags.String("provisioner", "", "the `name` by which StorageClasses choose this provisioner")
	_ = flags.Parse(arguments) // it exits on errors

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // the API server is this cluster's own
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	disks := disks{folder: *folder}
	grower, err := startGrower(ctx, client, *name, *node, disks)
	if err != nil {
		return err
	}
	provisioner := controller.NewProvisionController(ctx, client, *name, &provisioner{node: *node, disks: disks},
		controller.LeaderElection(false), // there is one for each node
		controller.MetricsPort(0),
		// The library's own limits suit a cloud; here a volume costs a tenth of a second.
		controller.RateLimiter(newLimiter()))
	go grower.run(ctx)
	go provisioner.Run(ctx)
	return serveHealth(ctx, *health, provisioner)
}

func serveHealth(ctx context.Context, address string, provisioner *controller.ProvisionController) error {
	server := &http.Server{Addr: address, ReadHeaderTimeout: 5 * time.Second}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !provisioner.HasRun() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
		}
	})
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}
