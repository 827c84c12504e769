package dedicated

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/testenv"
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
		{"a container has ended", []string{"ended", "stopped"}, "", true, 0},
	} {
		o := pods("standby", "standby")
		o.leader, o.bootstrapping = c.leader, c.begun
		for i, state := range c.states {
			o.pods[i].Annotations["status"] = fmt.Sprintf(`{"state":%q}`, strings.Replace(state, "ended", "stopped", 1))
			o.pods[i].Status.ContainerStatuses = nil
			if state != "missing" && state != "ended" {
				o.pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			}
		}
		if got := o.awaitingData(); len(got) != c.waiting {
			t.Errorf("%s: %v wait, want %d", c.what, got, c.waiting)
		}
	}
}

// TestPlanRollWhileDataIsMade: a member that makes the first data isn't interrupted, whatever is wished for by now.
func TestPlanRollWhileDataIsMade(t *testing.T) {
	for _, c := range []struct {
		what           string
		begun, running bool
		want           bool // that it is restarted
	}{
		{"it makes data", true, true, false},
		{"it has no container yet", true, false, true},
		{"nobody has begun", false, true, true},
	} {
		o := pods("standby old down")
		o.bootstrapping = c.begun
		if c.running {
			o.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}
		if step := planRoll(o, "wanted", "revision", 1, time.Now()); (step.pod != nil) != c.want || step.left != 1 {
			t.Errorf("%s: %+v", c.what, step)
		}
	}
}

// TestUnblock: only after all have waited for a minute without a break.
func TestUnblock(t *testing.T) {
	api := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, api)
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", UID: "a"}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-config", Annotations: map[string]string{"initialize": ""}}}
	if err := api.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	waits := pods("standby", "standby")
	waits.bootstrapping = true
	for i := range waits.pods {
		waits.pods[i].Annotations["status"] = `{"state":"stopped"}`
		waits.pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	starts := pods("standby", "standby")
	starts.bootstrapping = true
	r := &Reconciler{Client: api, Live: api, FieldManager: "test"}
	begin := time.Now()
	for _, look := range []struct {
		after time.Duration
		at    *observed
		begun bool
	}{
		{0, waits, true}, {50 * time.Second, waits, true}, {55 * time.Second, starts, true}, // one makes data after all
		{65 * time.Second, waits, true}, {120 * time.Second, waits, true}, {126 * time.Second, waits, false},
	} {
		if err := r.unblock(t.Context(), db, look.at, begin.Add(look.after)); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			t.Fatal(err)
		}
		if _, begun := config.Annotations["initialize"]; begun != look.begun {
			t.Errorf("after %s somebody has begun: %t, want %t", look.after, begun, look.begun)
		}
	}
}

// TestUnblockOnlyWhatIsHalfDone: the store, as the API server has it, says whether somebody has begun, and hasn't come to an end.
func TestUnblockOnlyWhatIsHalfDone(t *testing.T) {
	api := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, api)
	patches := 0
	r := &Reconciler{Client: countedPatches{api, &patches}, Live: api, FieldManager: "test"}
	waits := pods("standby")
	waits.bootstrapping = true
	waits.pods[0].Annotations["status"] = `{"state":"stopped"}`
	waits.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	for name, notes := range map[string]map[string]string{
		"done": {"initialize": "7", "config": "{}"}, "not-begun": {"config": "{}"}, "half-done": {"initialize": "", "config": "{}"}, "missing": nil,
	} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-config", Annotations: notes}}
		if notes != nil {
			if err := api.Create(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}
		db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
		begin := time.Now()
		for _, after := range []time.Duration{0, bootstrapTime} {
			if err := r.unblock(t.Context(), db, waits, begin.Add(after)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if half := name == "half-done"; (patches == 1) != half {
			t.Errorf("%s: %d writes", name, patches)
		}
		patches = 0
		if notes == nil {
			continue
		}
		version := config.ResourceVersion
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			t.Fatal(err)
		}
		if changed := config.ResourceVersion != version; changed != (name == "half-done") || config.Annotations["config"] != "{}" {
			t.Errorf("%s: changed %t, to %v", name, changed, config.Annotations)
		}
	}
}

// countedPatches counts what is patched.
type countedPatches struct {
	client.Client
	count *int
}

func (c countedPatches) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	*c.count++
	return c.Client.Patch(ctx, o, patch, options...)
}

// earlier reads what a ConfigMap was.
type earlier struct {
	client.Reader
	config corev1.ConfigMap
}

func (e earlier) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	e.config.DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

// TestUnblockComesTooLate: who has made data between the read and the write keeps it.
func TestUnblockComesTooLate(t *testing.T) {
	api := testenv.Get(t).Client()
	namespace := testenv.Namespace(t, api)
	db := &databasev1.Database{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", UID: "a"}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-config", Annotations: map[string]string{"initialize": ""}}}
	if err := api.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: api, Live: earlier{api, *config.DeepCopy()}, FieldManager: "test"}
	config.Annotations["initialize"] = "7"
	if err := api.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	r.waiting.update("a", []types.UID{"a-0"}, time.Now().Add(-time.Hour))
	waits := pods("standby")
	waits.bootstrapping = true
	waits.pods[0].Annotations["status"] = `{"state":"stopped"}`
	waits.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: postgresContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if err := r.unblock(t.Context(), db, waits, time.Now()); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil || config.Annotations["initialize"] != "7" {
		t.Errorf("%v, %v", config.Annotations, err)
	}
}

// TestLatest: the claim whose pod became the primary last; what a person wrote there counts where there is nothing else.
func TestLatest(t *testing.T) {
	claims := func(notes ...string) *observed {
		o := &observed{}
		for i, note := range notes {
			o.claims = append(o.claims, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("data-a-%d", i), Annotations: map[string]string{primaryAnnotation: note}}})
		}
		return o
	}
	early, late := time.Now().UTC().Format(primaryTime), time.Now().Add(time.Hour).UTC().Format(primaryTime)
	for _, c := range []struct {
		what string
		at   *observed
		want int
	}{
		{"none", claims("", ""), 0},
		{"the later one", claims(early, late, ""), 1},
		{"the later one, in another order", claims("", late, early), 1},
		{"what a person wrote", claims("", "", "true"), 2},
		{"a time is newer than what a person wrote", claims("true", early), 1},
	} {
		if got := c.at.lastPrimary(); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
