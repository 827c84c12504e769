package main

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to authenticate
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version metric
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func etcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func kubeAPIServer() int {
	return cli.Run(apiserver.NewAPIServerCommand())
}

func kubeControllerManager() int {
	return cli.Run(controllermanager.NewControllerManagerCommand())
}

func kubeScheduler() int {
	return cli.Run(scheduler.NewSchedulerCommand())
}

func kubectl() int {
	// The verbosity must be known before the command exists: building it already reads files and plugins.
	if _, err := logs.GlogSetter(cmd.GetLogVerbosity(os.Args)); err != nil {
		return 1
	}
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it and exits
	}
	return 0
}
