package main

import "fmt"

func controllers() row {
	return row{"Controllers: database is the shared kind's, server the dedicated kind's", []panel{
		{title: "Reconciles", kind: stacked, unit: perSecond, width: 8,
			description: "By how they ended. requeue_after is the normal end; error means that it is tried again, later each time.",
			queries:     []query{{`sum by (controller, result) (rate(controller_runtime_reconcile_total{job="$job"}[$__rate_interval]))`, "{{controller}} {{result}}"}}},
		{title: "Reconciles that failed", unit: share, width: 8,
			description: "The share of all. Above a half for long: docs/alerts.md#databasesreconcilesfailing.",
			queries: []query{{`sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="$job"}[$__rate_interval]))` +
				` / sum by (controller) (rate(controller_runtime_reconcile_total{job="$job"}[$__rate_interval]))`, "{{controller}}"}}},
		{title: "How long a reconcile takes, p95", unit: seconds, width: 8,
			description: "Follows PostgreSQL and the API server: compare with the statements above and the requests below.",
			queries:     []query{{`histogram_quantile(0.95, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{job="$job"}[$__rate_interval])))`, "{{controller}}"}}},
		{title: "Waiting for their turn", kind: stacked, unit: plain, width: 8,
			description: "Databases in the queue. It should reach 0 again within minutes: docs/alerts.md#databasesbacklog.",
			queries:     []query{{`sum by (controller) (workqueue_depth{job="$job"})`, "{{controller}}"}}},
		{title: "Busy workers", unit: plain, width: 8,
			description: "At most CONTROLLER_WORKERS a controller. All busy with a short queue is a mass change; with a long one, see whether PostgreSQL is the limit before raising it.",
			queries:     []query{{`sum by (controller) (controller_runtime_active_workers{job="$job"})`, "{{controller}}"}}},
		{title: "The longest reconcile that runs", unit: seconds, width: 8,
			description: "Its deadline is two minutes. More: docs/alerts.md#databasesreconcilestuck.",
			queries:     []query{{`max by (controller) (workqueue_longest_running_processor_seconds{job="$job"})`, "{{controller}}"}}},
	}}
}

func kubernetes() row {
	return row{"Kubernetes", []panel{
		{title: "API requests", kind: stacked, unit: perSecond, width: 12,
			description: "By their answer. 404 and 409 are normal. 401 and 403: a right is missing, docs/alerts.md#databasesapirequestsrefused. <error>: no answer.",
			queries:     []query{{`sum by (code) (rate(rest_client_requests_total{job="$job"}[$__rate_interval]))`, "{{code}}"}}},
		{title: "API requests by method", kind: stacked, unit: perSecond, width: 12,
			description: "Settled Databases cost none but the Lease's. A lasting rate of PATCH means that something changes objects back: compare with kubectl get --show-managed-fields.",
			queries:     []query{{`sum by (method) (rate(rest_client_requests_total{job="$job"}[$__rate_interval]))`, "{{method}}"}}},
	}}
}

func volumes() row {
	const claims = `persistentvolumeclaim=~"data-.+-[0-9]+"`
	by := func(aggregation, expr string) string {
		return aggregation + " by (namespace, persistentvolumeclaim) (" + expr + ")"
	}
	return row{"Volumes of dedicated servers, from the kubelet", []panel{
		{title: "Used", unit: share, width: 12, empty: "Prometheus doesn't scrape the kubelet",
			description: "PostgreSQL stops when its volume is full. Raise spec.storage.size in time: docs/alerts.md#databasesvolumenearlyfull.",
			queries: []query{{by("max", fmt.Sprintf(`kubelet_volume_stats_used_bytes{%s} / kubelet_volume_stats_capacity_bytes{%s}`, claims, claims)),
				"{{namespace}} {{persistentvolumeclaim}}"}}},
		{title: "Left", unit: bytesIEC, width: 12, empty: "Prometheus doesn't scrape the kubelet",
			description: "A line that falls straight down is growth, or WAL that a dead standby's slot or a failing archive keeps: look before you grow the volume.",
			queries:     []query{{by("min", fmt.Sprintf(`kubelet_volume_stats_available_bytes{%s}`, claims)), "{{namespace}} {{persistentvolumeclaim}}"}}},
	}}
}

func process() row {
	return row{"Process", []panel{
		{title: "Memory", unit: bytesIEC, width: 6,
			description: "Resident. It grows with the number of Databases, not with time; a line that only rises is a leak: report it.",
			queries:     []query{{`process_resident_memory_bytes{job="$job"}`, "{{instance}}"}}},
		{title: "CPU", unit: plain, width: 6,
			description: "Cores in use. Idle is near 0; the standby's too.",
			queries:     []query{{`rate(process_cpu_seconds_total{job="$job"}[$__rate_interval])`, "{{instance}}"}}},
		{title: "Goroutines", unit: plain, width: 6,
			description: "Some hundred, as many as before after a burst. If they only rise, report it with the log.",
			queries:     []query{{`go_goroutines{job="$job"}`, "{{instance}}"}}},
		{title: "Running for", unit: seconds, width: 6,
			description: "Falls to 0 at each start. Teeth of a saw: docs/alerts.md#databasesrestarting.",
			queries:     []query{{`time() - process_start_time_seconds{job="$job"}`, "{{instance}}"}}},
	}}
}

func traces() row {
	return row{"One Database", []panel{
		{title: "Reconciles of $namespace/$name", kind: trace, width: 24, empty: "no trace: is the name right, and does the program send traces?",
			description: "Fill in namespace and name above. Each row is one reconcile with its statements and API requests; a failed one has the error in full.",
			queries:     []query{{traceQuery, ""}}},
	}}
}

// quantiles are lines for these quantiles of a histogram.
func quantiles(metric, matchers string, all ...float64) []query {
	var queries []query
	for _, q := range all {
		queries = append(queries, query{
			fmt.Sprintf(`histogram_quantile(%g, sum by (le) (rate(%s_bucket{%s}[$__rate_interval])))`, q, metric, matchers),
			fmt.Sprintf("p%g", q*100),
		})
	}
	return queries
}
