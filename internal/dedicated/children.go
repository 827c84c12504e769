package dedicated

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	databasev1 "github.com/example/databases/api/database/v1"
)

// configAnnotation holds the members' shared configuration in the ConfigMap of that suffix, as Patroni wants it.
const configAnnotation = "config"

// access is what Patroni may do: see the members, write its own four ConfigMaps and its own pods' labels.
func access(db *databasev1.Database) []child {
	name, namespace := db.Name, db.Namespace
	var pods, configMaps []string
	for i := range maxReplicas {
		pods = append(pods, podName(db, i))
	}
	for _, suffix := range storeSuffixes {
		configMaps = append(configMaps, name+suffix)
	}
	role := rbacv1ac.Role(name, namespace).WithRules(
		rule("configmaps", "list", "watch"), rule("pods", "list", "watch"), // by label, which RBAC can't name
		rule("configmaps", "get", "patch", "update").WithResourceNames(configMaps...),
		rule("pods", "get", "patch", "update").WithResourceNames(pods...))
	binding := rbacv1ac.RoleBinding(name, namespace).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(name)).
		WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(name).WithNamespace(namespace))
	return []child{
		{&corev1.ServiceAccount{}, corev1ac.ServiceAccount(name, namespace)},
		{&rbacv1.Role{}, role},
		{&rbacv1.RoleBinding{}, binding},
	}
}

// rule is one for a resource of the core group.
func rule(resource string, verbs ...string) *rbacv1ac.PolicyRuleApplyConfiguration {
	return rbacv1ac.PolicyRule().WithAPIGroups("").WithResources(resource).WithVerbs(verbs...)
}

// store is Patroni's store. It is made here, so that nothing of it outlives the Database and Patroni needs no right to
// make ConfigMaps. Where it has other parameters than the store has now, members are to be asked whether they took them.
func (r *Reconciler) store(db *databasev1.Database, o *observed, parameters map[string]string) ([]child, error) {
	var children []child
	for _, suffix := range storeSuffixes {
		wish := corev1ac.ConfigMap(db.Name+suffix, db.Namespace).WithLabels(selectorLabels(db))
		if suffix == suffixConfig {
			config, err := json.Marshal(patroniDynamic(db, o, parameters))
			if err != nil {
				return nil, err
			}
			wish.WithAnnotations(map[string]string{configAnnotation: string(config)})
			if o.initialized && !maps.Equal(configuredParameters(string(config)), configuredParameters(o.config)) {
				r.configured.begin(db.UID)
			}
		}
		children = append(children, child{&corev1.ConfigMap{}, wish})
	}
	return children, nil
}

// services are the ways to the members: each by its name, the primary, and the standbys.
func services(db *databasev1.Database) []child {
	service := func() *corev1ac.ServiceSpecApplyConfiguration {
		return corev1ac.ServiceSpec().WithSelector(selectorLabels(db)).WithType(corev1.ServiceTypeClusterIP).
			WithPorts(corev1ac.ServicePort().WithName("postgres").WithPort(databasev1.Port).
				WithTargetPort(intstr.FromInt32(databasev1.Port)).WithProtocol(corev1.ProtocolTCP))
	}
	headless := service().WithClusterIP(corev1.ClusterIPNone).WithPublishNotReadyAddresses(true)
	primary := service().WithSelector(map[string]string{roleLabel: rolePrimary})
	readOnly := service().WithSelector(map[string]string{roleLabel: roleReplica})
	return []child{
		{&corev1.Service{}, corev1ac.Service(db.Name+suffixPods, db.Namespace).WithSpec(headless)},
		{&corev1.Service{}, corev1ac.Service(db.Name, db.Namespace).WithSpec(primary)},
		{&corev1.Service{}, corev1ac.Service(db.Name+suffixReadOnly, db.Namespace).WithSpec(readOnly)},
	}
}

// network lets everybody reach PostgreSQL, and only the members and the controller Patroni's REST interface; a node's
// kubelet may always reach its own pods.
func (r *Reconciler) network(db *databasev1.Database) child {
	rest := networkingv1ac.NetworkPolicyIngressRule().
		WithPorts(port(restPort)).
		WithFrom(networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(db))))
	if r.Namespace != "" {
		rest.WithFrom(networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(
			metav1ac.LabelSelector().WithMatchLabels(map[string]string{corev1.LabelMetadataName: r.Namespace})))
	}
	return child{&networkingv1.NetworkPolicy{}, networkingv1ac.NetworkPolicy(db.Name, db.Namespace).WithSpec(
		networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(db))).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().WithPorts(port(databasev1.Port)), rest))}
}

func port(number int32) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromInt32(number))
}

// disruption lets one member at a time be evicted, and none while no standby could be the primary. A single one needs none:
// it would only stand in a drain's way.
func disruption(db *databasev1.Database, o *observed) child {
	allowed := int32(1)
	if o.candidate(maxReplicas, o.synchronous(db)) == nil {
		allowed = 0
	}
	return child{&policyv1.PodDisruptionBudget{}, policyv1ac.PodDisruptionBudget(db.Name, db.Namespace).WithSpec(
		policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(allowed)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow). // one that doesn't work helps nobody where it is
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(db))))}
}

func labelSelector(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

// conflictMessage says what to do about an object that stands in the way.
func conflictMessage(e *conflictError) string {
	return fmt.Sprintf("A %s %q exists that isn't this Database's. Delete or rename it, or make the Database under another metadata.name.", e.kind, e.name)
}
