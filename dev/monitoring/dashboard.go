package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const (
	repository = "https://github.com/example/databases/blob/main/"
	// traceQuery finds the reconciles of one Database; the attributes are those of the root span.
	traceQuery = `{resource.service.name="databases" && span.k8s.namespace.name="$namespace" && span.humus.kube.object.name="$name"}`
)

// classic is the older of Grafana's two formats: every Grafana reads it from a file, the newer one only recent ones do.
type classic = dashboard.Dashboard //nolint:staticcheck // deprecated, but see above

// newDashboard puts the rows together. Panels are placed from left to right in the order in which they are added.
func newDashboard() (classic, error) {
	builder := dashboard.NewDashboardBuilder("Databases"). //nolint:staticcheck // see classic
								Uid("databases").
								Description("The program databases: what it looks after, how it is doing, and where to look when it isn't well.").
								Tags([]string{"databases", "postgresql"}).
								Timezone("browser").
								Tooltip(dashboard.DashboardCursorSyncCrosshair).
								Time("now-6h", "now").
								Refresh("1m").
								Readonly().
								Link(link("Alerts: what to do", "docs/alerts.md")).
								Link(link("Reasons of shared Databases", "docs/reasons.md")).
								Link(link("Reasons of dedicated Databases", "docs/server-reasons.md"))
	for _, v := range variables() {
		builder.WithVariable(v)
	}
	id := uint32(0) // links to a panel name its id, so it is given here and not by Grafana
	next := func() uint32 { id++; return id }
	for _, r := range rows() {
		builder.WithRow(dashboard.NewRowBuilder(r.title).Id(next()))
		for _, p := range r.panels {
			builder.WithPanel(p.builder(next()))
		}
	}
	return builder.Build()
}

func rows() []row {
	return []row{overview(), provisioning(), statements(), changes(), controllers(), kubernetes(), volumes(), process(), traces()}
}

// row is a heading and the panels below it.
type row struct {
	title  string
	panels []panel
}

func link(title, file string) *dashboard.DashboardLinkBuilder {
	return dashboard.NewDashboardLinkBuilder(title).Type(dashboard.DashboardLinkTypeLink).Url(repository + file).TargetBlank(true)
}

// variables are the choices above the dashboard.
func variables() []builderOf[dashboard.VariableModel] {
	return []builderOf[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Metrics").Type("prometheus"),
		dashboard.NewDatasourceVariableBuilder("traces").Label("Traces").Type("tempo"),
		dashboard.NewQueryVariableBuilder("job").Label("Job").
			Description("The name under which Prometheus has the program's metrics.").
			Query(dashboard.StringOrMap{String: ptr("label_values(process_start_time_seconds, job)")}).
			Datasource(metrics).Refresh(dashboard.VariableRefreshOnDashboardLoad).
			Current(dashboard.VariableOption{Text: text("databases"), Value: text("databases")}),
		dashboard.NewQueryVariableBuilder("kind").Label("Kind").
			Query(dashboard.StringOrMap{String: ptr(`label_values(databases_count{job="$job"}, databases_kind)`)}).
			Datasource(metrics).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
			IncludeAll(true).AllValue(".*").Multi(true).
			Current(dashboard.VariableOption{Text: text("All"), Value: text("$__all")}),
		dashboard.NewTextBoxVariableBuilder("namespace").Label("Namespace").
			Description("Of the Database whose traces the last row shows.").
			DefaultValue(dashboard.StringOrMap{String: ptr("default")}),
		dashboard.NewTextBoxVariableBuilder("name").Label("Name").
			Description("The Database whose traces the last row shows.").
			DefaultValue(dashboard.StringOrMap{String: ptr("orders")}),
	}
}

var (
	metrics = common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}
	tempoDB = common.DataSourceRef{Type: ptr("tempo"), Uid: ptr("${traces}")}
)

func ptr[T any](v T) *T { return &v }

func text(s string) dashboard.StringOrArrayOfString {
	return dashboard.StringOrArrayOfString{String: &s}
}
