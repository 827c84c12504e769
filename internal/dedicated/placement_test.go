package dedicated

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	databasev1 "github.com/example/databases/api/database/v1"
)

// membersOfA selects the pods of the Database "a".
func membersOfA() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "database", "database": "a"}}
}

// placement is what a pod's template says of where it runs.
type placement struct {
	Affinity     *corev1.Affinity
	Spread       []corev1.TopologySpreadConstraint
	Tolerations  []corev1.Toleration
	NodeSelector map[string]string
	PullSecrets  []corev1.LocalObjectReference
}

// TestPlacement: by default replicas prefer other nodes and other zones; what the spec says replaces that, also where it says
// that nothing is wished for.
func TestPlacement(t *testing.T) {
	t.Parallel()
	apart := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
		Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: membersOfA()}}}}}
	zones := []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone",
		WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: membersOfA()}}
	required := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: "kubernetes.io/hostname", LabelSelector: membersOfA()}}}}
	racks := []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule}}
	for _, c := range []struct {
		what string
		spec func(*databasev1.DatabaseSpec)
		want placement
	}{
		{"by default", func(*databasev1.DatabaseSpec) {}, placement{Affinity: apart, Spread: zones}},
		{"another affinity", func(s *databasev1.DatabaseSpec) { s.Affinity = required }, placement{Affinity: required, Spread: zones}},
		{"an empty affinity", func(s *databasev1.DatabaseSpec) { s.Affinity = &corev1.Affinity{} }, placement{Affinity: &corev1.Affinity{}, Spread: zones}},
		{"another spread", func(s *databasev1.DatabaseSpec) { s.TopologySpreadConstraints = racks }, placement{Affinity: apart, Spread: racks}},
		{"the rest", func(s *databasev1.DatabaseSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "databases", Operator: corev1.TolerationOpExists}}
			s.NodeSelector = map[string]string{"disk": "fast"}
			s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		}, placement{apart, zones, []corev1.Toleration{{Key: "databases", Operator: corev1.TolerationOpExists}},
			map[string]string{"disk": "fast"}, []corev1.LocalObjectReference{{Name: "registry"}}}},
	} {
		s := newStage(t, 2, func(db *databasev1.Database) { c.spec(&db.Spec) })
		set := &appsv1.StatefulSet{}
		s.get("a", set)
		spec := set.Spec.Template.Spec
		got := placement{spec.Affinity, spec.TopologySpreadConstraints, spec.Tolerations, spec.NodeSelector, spec.ImagePullSecrets}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
}

// TestClaimTemplate: a StatefulSet's can't be changed, so that it has the size that it was made with; without a class it is the
// cluster's default.
func TestClaimTemplate(t *testing.T) {
	live := func(size string) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim(size, size)}}}
	}
	for _, c := range []struct {
		what    string
		storage databasev1.Storage
		live    *appsv1.StatefulSet
		size    string
		class   *string
	}{
		{"a new one", databasev1.Storage{Size: "2Gi"}, nil, "2Gi", nil},
		{"a class", databasev1.Storage{Size: "2Gi", StorageClass: "fast"}, nil, "2Gi", new("fast")},
		{"one that has grown", databasev1.Storage{Size: "2Gi"}, live("1Gi"), "1Gi", nil},
		{"a StatefulSet without volumes", databasev1.Storage{Size: "2Gi"}, &appsv1.StatefulSet{}, "2Gi", nil},
	} {
		got, err := claimTemplate(&databasev1.Database{Spec: databasev1.DatabaseSpec{Storage: c.storage}}, c.live)
		if err != nil {
			t.Fatal(err)
		}
		size := (*got.Spec.Resources.Requests)[corev1.ResourceStorage]
		if size.String() != c.size {
			t.Errorf("%s: %s", c.what, size.String())
		}
		if diff := cmp.Diff(c.class, got.Spec.StorageClassName); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	if _, err := claimTemplate(&databasev1.Database{Spec: databasev1.DatabaseSpec{Storage: databasev1.Storage{Size: "much"}}}, nil); err == nil {
		t.Error("a size that is none passes")
	}
}

// TestPlaceEmptyList: the API takes no empty list any more; one that is stored is a wish all the same.
func TestPlaceEmptyList(t *testing.T) {
	db := &databasev1.Database{Spec: databasev1.DatabaseSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{}}}
	spec := corev1ac.PodSpec()
	if err := place(spec, db); err != nil || len(spec.TopologySpreadConstraints) != 0 {
		t.Errorf("%d constraints, %v", len(spec.TopologySpreadConstraints), err)
	}
	if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil {
		t.Error("the other default is gone too")
	}
}

// TestDisruption: a member may be evicted while another one could be the primary.
func TestDisruption(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	for _, c := range []struct {
		what       string
		durability databasev1.Durability
		members    []string
		sync       []string
		want       int
	}{
		{"a standby that has every write", databasev1.DurabilitySync, []string{"primary", "standby", "standby"}, []string{"a-2"}, 1},
		{"none that has", databasev1.DurabilitySync, []string{"primary", "standby", "standby"}, nil, 0},
		{"one that has and doesn't stream", databasev1.DurabilitySync, []string{"primary", "standby silent", "standby"}, []string{"a-1"}, 0},
		{"one that has and isn't ready", databasev1.DurabilitySync, []string{"primary", "standby blinked"}, []string{"a-1"}, 0},
		{"one of high number", databasev1.DurabilitySync, []string{"primary", "standby", "standby", "standby", "standby"}, []string{"a-4"}, 1},
		{"any, where none need have every write", databasev1.DurabilityAsync, []string{"primary", "standby"}, nil, 1},
		{"none that streams, where none need have every write", databasev1.DurabilityAsync, []string{"primary", "standby silent"}, nil, 0},
		{"the primary alone", databasev1.DurabilityAsync, []string{"primary"}, nil, 0},
	} {
		db, o := s.database(), pods(c.members...)
		db.Spec.Durability, o.sync = c.durability, c.sync
		if err := s.applyChild(t.Context(), db, disruption(db, o)); err != nil {
			t.Fatal(err)
		}
		budget := &policyv1.PodDisruptionBudget{}
		s.get("a", budget)
		want := policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt(c.want)), Selector: membersOfA(),
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow)}
		if diff := cmp.Diff(want, budget.Spec); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
}

// TestRemoveDisruption: only the Database's own budget, and only once a single replica is wished for.
func TestRemoveDisruption(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	remove := func(what string, replicas int32, want bool) {
		t.Helper()
		db := s.database()
		db.Spec.Replicas = replicas
		if err := s.removeDisruption(t.Context(), db); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		err := s.Client.Get(t.Context(), s.key, &policyv1.PodDisruptionBudget{})
		if gone := err != nil; gone != want {
			t.Errorf("%s: gone %t, %v", what, gone, err)
		}
	}
	remove("two replicas", 2, false)
	remove("one", 1, true)
	remove("one, and no budget", 1, true)
	theirs := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
	if err := s.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	remove("somebody else's", 1, false)
}

// TestNetwork: everybody reaches PostgreSQL, and only the members and the controller's namespace Patroni.
func TestNetwork(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	protocol := corev1.ProtocolTCP
	members := networkingv1.NetworkPolicyPeer{PodSelector: membersOfA()}
	controller := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "control"}}}
	for namespace, from := range map[string][]networkingv1.NetworkPolicyPeer{"": {members}, "control": {members, controller}} {
		s.Namespace = namespace
		db := s.database()
		if err := s.applyChild(t.Context(), db, s.network(db)); err != nil {
			t.Fatal(err)
		}
		policy := &networkingv1.NetworkPolicy{}
		s.get("a", policy)
		want := networkingv1.NetworkPolicySpec{
			PodSelector: *membersOfA(), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{Ports: []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: new(intstr.FromInt(5432))}}},
				{Ports: []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: new(intstr.FromInt(8008))}}, From: from},
			},
		}
		if diff := cmp.Diff(want, policy.Spec); diff != "" {
			t.Errorf("with the controller in %q: %s", namespace, diff)
		}
	}
}
