package main

import (
	"regexp"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/tempo"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// builderOf is any of the SDK's builders of a T.
type builderOf[T any] = cog.Builder[T]

// Units as Grafana names them.
const (
	seconds   = "s"
	bytesIEC  = "bytes"
	share     = "percentunit"
	perSecond = "ops"
	plain     = "short"
)

// panelKind is how a panel shows its queries.
type panelKind int

const (
	lines   panelKind = iota
	stacked           // lines that add up
	bars              // things that happen now and then
	number            // the last value, large
	firing            // a table of alerts
	trace             // a table of traces
)

// panel is what panels differ in.
type panel struct {
	title string
	// description says what the panel means and what to do about it.
	description string
	kind        panelKind
	unit        string
	width       uint32
	queries     []query
	levels      []level
	words       map[string]string
	// empty is shown where the queries have no answer.
	empty string
}

// query is one expression and the name of its lines.
type query struct{ expr, legend string }

// level is a value from which on the panel has the colour.
type level struct {
	from  float64
	color string
}

func (p panel) builder(id uint32) builderOf[dashboard.Panel] {
	switch p.kind {
	case number:
		return p.number(id)
	case firing:
		return p.firing(id)
	case trace:
		return p.trace(id)
	}
	b := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.markdown()).Datasource(metrics).
		Targets(p.targets()).Unit(p.unit).Min(0).Span(p.width).Height(8).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		ShowPoints(common.VisibilityModeNever)
	if p.empty != "" {
		b.NoValue(p.empty)
	}
	switch p.kind {
	case stacked:
		b.FillOpacity(30).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	case bars:
		b.DrawStyle(common.GraphDrawStyleBars).FillOpacity(60).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	return b
}

// document is a page of docs, and perhaps a heading there.
var document = regexp.MustCompile(`docs/[a-z-]+\.md(#[a-z]+)?`)

// markdown is the description with links to the documents that it names.
func (p panel) markdown() string {
	return document.ReplaceAllString(p.description, "[$0]("+repository+"$0)")
}

func (p panel) number(id uint32) builderOf[dashboard.Panel] {
	b := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.markdown()).Datasource(metrics).
		Targets(p.targets()).Unit(p.unit).Span(p.width).Height(4).
		GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeValue).Orientation(common.VizOrientationAuto).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Thresholds(p.thresholds())
	if p.empty != "" {
		b.NoValue(p.empty)
	}
	if p.words != nil {
		options := make(map[string]dashboard.ValueMappingResult, len(p.words))
		for value, word := range p.words {
			options[value] = dashboard.ValueMappingResult{Text: &word}
		}
		b.Mappings([]dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}})
	}
	return b
}

// firing shows no time series but what holds now, each with a link to what to do.
func (p panel) firing(id uint32) builderOf[dashboard.Panel] {
	return table.NewPanelBuilder().Id(id).Title(p.title).Description(p.markdown()).Datasource(metrics).
		WithTarget(prometheus.NewDataqueryBuilder().RefId("A").Expr(p.queries[0].expr).Instant().Format(prometheus.PromQueryFormatTable)).
		Span(p.width).Height(8).NoValue(p.empty).
		Links([]builderOf[dashboard.DashboardLink]{link("What to do", "docs/alerts.md")})
}

func (p panel) trace(id uint32) builderOf[dashboard.Panel] {
	return table.NewPanelBuilder().Id(id).Title(p.title).Description(p.markdown()).Datasource(tempoDB).
		WithTarget(tempo.NewDataqueryBuilder().RefId("A").QueryType("traceql").Query(p.queries[0].expr).Limit(20).
			TableType(tempo.SearchTableTypeTraces).Datasource(tempoDB)).
		Span(p.width).Height(9).NoValue(p.empty)
}

func (p panel) targets() []builderOf[variants.Dataquery] {
	var all []builderOf[variants.Dataquery]
	for i, q := range p.queries {
		all = append(all, prometheus.NewDataqueryBuilder().RefId(string(rune('A'+i))).Expr(q.expr).LegendFormat(q.legend).Range())
	}
	return all
}

func (p panel) thresholds() builderOf[dashboard.ThresholdsConfig] {
	steps := []dashboard.Threshold{{Color: "green"}} // from minus infinity
	for i, l := range p.levels {
		if i == 0 && l.from == 0 {
			steps = steps[:0]
		}
		step := dashboard.Threshold{Color: l.color}
		if l.from != 0 {
			step.Value = ptr(l.from)
		}
		steps = append(steps, step)
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}
