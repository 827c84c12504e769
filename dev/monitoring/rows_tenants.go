package main

import "fmt"

// counted are the numbers of Databases that a selection finds. They come from the leader; after a change of it Prometheus
// remembers the old one's for some minutes too, so that a sum over replicas would be double.
func counted(more string) string {
	return `max by (cluster, namespace, databases_kind, databases_ready, databases_ready_reason) (databases_count{job="$job", databases_kind=~"$kind"` + more + `})`
}

func overview() row {
	return row{"Overview", []panel{
		{title: "Databases", kind: number, unit: plain, width: 4, empty: "no leader",
			description: "Databases of the chosen kinds. Only the leader counts them: without one there is no number.",
			queries:     []query{{"sum(" + counted("") + ")", ""}}},
		{title: "Not ready", kind: number, unit: plain, width: 4, empty: "0", levels: []level{{1, "orange"}},
			description: "Databases whose condition Ready isn't True. The panel below has the reasons; docs/reasons.md and docs/server-reasons.md say what each wants.",
			queries:     []query{{"sum(" + counted(`, databases_ready!="true"`) + ")", ""}}},
		{title: "Oldest not ready", kind: number, unit: seconds, width: 4, empty: "none", levels: []level{{600, "orange"}, {1800, "red"}},
			description: "How long the Database that has waited longest isn't ready. Paused ones don't count. From half an hour on look for it: kubectl get databases-all -A.",
			queries:     []query{{`max(databases_unready_age_max_seconds{job="$job", databases_kind=~"$kind"})`, ""}}},
		{title: "Shared server", kind: number, unit: plain, width: 4, empty: "none", levels: []level{{0, "red"}, {1, "green"}},
			words:       map[string]string{"0": "Down", "1": "Up"},
			description: "Whether the program can use the PostgreSQL server of the shared Databases. Down: docs/alerts.md#databasesserverunreachable.",
			queries:     []query{{`max(databases_server_up{job="$job"})`, ""}}},
		{title: "Leaders", kind: number, unit: plain, width: 4, empty: "none", levels: []level{{0, "red"}, {1, "green"}},
			description: "Leases that a replica holds: one for each installation (kubectl get lease -n databases). Two holders of the same one: docs/alerts.md#databasestwoleaders.",
			queries:     []query{{`sum(max by (cluster, namespace, name) (leader_election_master_status{job="$job"}))`, ""}}},
		{title: "Replicas", kind: number, unit: plain, width: 4, empty: "none", levels: []level{{0, "red"}, {1, "orange"}, {2, "green"}},
			description: "Replicas that report. With one, nobody takes over when it goes: kubectl get pods -n databases.",
			queries:     []query{{`count(process_start_time_seconds{job="$job"})`, ""}}},
		{title: "Databases by kind", kind: stacked, unit: plain, width: 8,
			description: "Growth is capacity planning for the shared server; a sudden drop is somebody deleting.",
			queries:     []query{{"sum by (databases_kind) (" + counted("") + ")", "{{databases_kind}}"}}},
		{title: "Not ready, by reason", kind: stacked, unit: plain, width: 8, empty: "all are ready",
			description: "Each reason is a heading in docs/reasons.md or docs/server-reasons.md; Pending: not looked at yet, so a leader is missing or busy. One reason that grows for many at once has one cause: the server, a right, an image.",
			queries:     []query{{"sum by (databases_kind, databases_ready_reason) (" + counted(`, databases_ready!="true"`) + ")", "{{databases_kind}} {{databases_ready_reason}}"}}},
		{title: "Alerts that fire", kind: firing, width: 8, empty: "none",
			description: "docs/alerts.md has a heading for each. The alerts are in deploy/monitoring/alerts.yaml; the table stays empty where they aren't loaded.",
			queries:     []query{{`ALERTS{alertname=~"Databases.+", alertstate="firing"}`, ""}}},
	}}
}

func provisioning() row {
	return row{"Provisioning", []panel{
		{title: "Provisions", unit: perSecond, width: 8,
			description: "Looks at a role and a database, and what they change. Most find nothing to do: one SELECT. Those with an error have its kind as a name.",
			queries:     []query{{`sum by (databases_kind, error_type) (rate(databases_provision_duration_seconds_count{job="$job", databases_kind=~"$kind"}[$__rate_interval]))`, "{{databases_kind}} {{error_type}}"}}},
		{title: "How long a provision takes", unit: seconds, width: 8,
			description: "A first creation copies template0, so p99 follows the server's disk. If p50 rises, every look at the server has become slow: see the statements below.",
			queries:     quantiles("databases_provision_duration_seconds", `job="$job", databases_kind=~"$kind"`, 0.5, 0.95, 0.99)},
		{title: "From creation to ready", unit: seconds, width: 8, empty: "none became ready",
			description: "What a user waits for a new Database: about a second for a shared one, about ten for a dedicated one. Much more: an image to pull, a volume to make, a queue (below).",
			queries:     quantiles("databases_ready_duration_seconds", `job="$job", databases_kind=~"$kind"`, 0.5, 0.95, 0.99)},
	}}
}

func statements() row {
	return row{"SQL", []panel{
		{title: "Round trips to PostgreSQL", kind: stacked, unit: perSecond, width: 8,
			description: "By what they do. Settled Databases cost one SELECT each a resync; anything else that lasts means that something changes them back (Drift put back).",
			queries:     []query{{`sum by (db_query_summary) (rate(db_client_operation_duration_seconds_count{job="$job"}[$__rate_interval]))`, "{{db_query_summary}}"}}},
		{title: "How long they take, p95", unit: seconds, width: 8,
			description: "CREATE DATABASE and DROP DATABASE wait for a checkpoint of the server. A slow SELECT means a busy server, or a network that is.",
			queries:     []query{{`histogram_quantile(0.95, sum by (le, db_query_summary) (rate(db_client_operation_duration_seconds_bucket{job="$job"}[$__rate_interval])))`, "{{db_query_summary}}"}}},
		{title: "Round trips that failed", kind: bars, unit: perSecond, width: 8, empty: "none",
			description: "By what failed and how. A race that is tried again shows here too; what lasts is in the log as \"reconcile failed\".",
			queries:     []query{{`sum by (db_query_summary, error_type) (rate(db_client_operation_duration_seconds_count{job="$job", error_type!=""}[$__rate_interval]))`, "{{db_query_summary}} {{error_type}}"}}},
	}}
}

func changes() row {
	happened := func(metric, by, legend string) []query {
		return []query{{fmt.Sprintf(`sum by (%s) (increase(%s{job="$job", databases_kind=~"$kind"}[$__rate_interval]))`, by, metric), legend}}
	}
	return row{"What happened", []panel{
		{title: "Drift put back", kind: bars, unit: plain, width: 6, empty: "none",
			description: "Changes in PostgreSQL that somebody else had made and the program undid. If one comes again and again, two want different things: find who with the server's log.",
			queries:     happened("databases_drift_repaired_total", "databases_kind, databases_change", "{{databases_kind}} {{databases_change}}")},
		{title: "Passwords rotated", kind: bars, unit: plain, width: 6, empty: "none",
			description: "New passwords, because a Secret was deleted. Many at once: somebody removes Secrets, and the applications must read them again.",
			queries:     happened("databases_password_rotations_total", "databases_kind", "{{databases_kind}}")},
		{title: "Claims refused", kind: bars, unit: plain, width: 6, empty: "none",
			description: "Databases that asked for a name which isn't theirs to have. A few are mistakes; many from one namespace are somebody trying: docs/alerts.md#databasesclaimsrefused.",
			queries:     happened("databases_claims_refused_total", "databases_kind, databases_reason", "{{databases_kind}} {{databases_reason}}")},
		{title: "Failovers of dedicated servers", kind: bars, unit: plain, width: 6, empty: "none",
			description: "Another pod became primary. Planned: the program moved or restarted it, as in a rolling change. Others: docs/alerts.md#databasesfailedover.",
			queries:     []query{{`sum by (databases_planned) (increase(databases_failovers_total{job="$job"}[$__rate_interval]))`, "planned: {{databases_planned}}"}}},
	}}
}
