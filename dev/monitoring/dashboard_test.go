package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func TestDashboardIsCurrent(t *testing.T) {
	want, err := encoded()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s isn't what the code makes: run make generate", dashboardFile)
	}
}

// TestDashboardFitsTheSchema reads the file as Grafana's schema has it, unknown fields refused.
func TestDashboardFitsTheSchema(t *testing.T) {
	content, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d classic
	// Both return a list that may be there and empty.
	if err := d.UnmarshalJSONStrict(content); err != nil && err.Error() != "" {
		t.Error(err)
	}
	if err := d.Validate(); err != nil && err.Error() != "" {
		t.Error(err)
	}
}

func TestPanelsAreWholeAndApart(t *testing.T) {
	d, err := newDashboard()
	if err != nil {
		t.Fatal(err)
	}
	const columns = 24
	taken := map[[2]uint32]string{} // column and line to the panel that covers them
	ids := map[uint32]string{}
	titles := map[string]bool{}
	for _, p := range d.Panels {
		var pos dashboard.GridPos
		var title string
		var id uint32
		if p.RowPanel != nil {
			pos, title, id = *p.RowPanel.GridPos, *p.RowPanel.Title, p.RowPanel.Id
		} else {
			pos, title, id = *p.Panel.GridPos, *p.Panel.Title, *p.Panel.Id
			if len(p.Panel.Targets) == 0 || p.Panel.Description == nil || !strings.HasSuffix(*p.Panel.Description, ".") {
				t.Errorf("panel %q: want a query, and a description that says what to do", title)
			}
		}
		if titles[title] || ids[id] != "" || id == 0 {
			t.Errorf("panel %q: its title or id %d isn't its own", title, id)
		}
		titles[title], ids[id] = true, title
		if pos.W == 0 || pos.H == 0 || pos.X+pos.W > columns {
			t.Errorf("panel %q doesn't fit on the grid: %+v", title, pos)
		}
		for x := pos.X; x < pos.X+pos.W; x++ {
			for y := pos.Y; y < pos.Y+pos.H; y++ {
				if other := taken[[2]uint32{x, y}]; other != "" {
					t.Fatalf("panels %q and %q overlap", title, other)
				}
				taken[[2]uint32{x, y}] = title
			}
		}
	}
}
