package dedicated

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAwaitingData: only where every member says that it waits. One that has run initdb and starts PostgreSQL for the
// first time makes data still, although Patroni says so by other words than while initdb runs.
func TestAwaitingData(t *testing.T) {
	for _, c := range []struct {
		what    string
		states  []string
		leader  string
		begun   bool
		waiting int
	}{
		{"all wait", []string{"stopped", "stopped"}, "", true, 2},
		{"nobody has begun", []string{"stopped", "stopped"}, "", false, 0},
		{"there is a primary", []string{"stopped", "stopped"}, "a-0", true, 0},
		{"initdb runs", []string{"initializing new cluster", "stopped"}, "", true, 0},
		{"PostgreSQL is started for the first time", []string{"starting", "stopped"}, "", true, 0},
		{"PostgreSQL runs, and isn't the leader yet", []string{"running", "stopped"}, "", true, 0},
		{"Patroni hasn't said anything", []string{"", "stopped"}, "", true, 0},
		{"a container is missing", []string{"missing", "stopped"}, "", true, 0},
	} {
		o := pods("standby", "standby")
		o.leader, o.bootstrapping = c.leader, c.begun
		for i, state := range c.states {
			o.pods[i].Annotations["status"] = fmt.Sprintf(`{"state":%q}`, state)
			o.pods[i].Status.ContainerStatuses = nil
			if state != "missing" {
				o.pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			}
		}
		if got := o.awaitingData(); len(got) != c.waiting {
			t.Errorf("%s: %v wait, want %d", c.what, got, c.waiting)
		}
	}
}
