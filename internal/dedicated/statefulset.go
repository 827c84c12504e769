package dedicated

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
)

const (
	// podUser is the user and group postgres of the official images.
	podUser = 999
	// restartAnnotation identifies what the spec wishes of a pod. A pod with another value is restarted; one whose
	// template changed for another reason, as by another build of this program, is not.
	restartAnnotation = "database.example.com/restart"

	postgresContainer = "postgres"
	inspectContainer  = "inspect"
	installContainer  = "install"

	bundleMount = "/patroni"
	volumeMount = "/var/lib/postgresql/data"
	dataFolder  = volumeMount + "/pgdata"

	// stopGrace lets PostgreSQL write its last checkpoint.
	stopGrace = 120
)

// statefulSet is the wish for the StatefulSet. live is the one that is there, nil for none: what a StatefulSet can't
// change is kept from it. image is the image that was accepted.
func (r *Reconciler) statefulSet(db *databasev1.Database, live *appsv1.StatefulSet, image string, size members) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	template, err := r.podTemplate(db, image)
	if err != nil {
		return nil, err
	}
	claim, err := claimTemplate(db, live)
	if err != nil {
		return nil, err
	}
	return appsv1ac.StatefulSet(db.Name, db.Namespace).WithSpec(appsv1ac.StatefulSetSpec().
		WithReplicas(size.count).
		WithOrdinals(appsv1ac.StatefulSetOrdinals().WithStart(size.first)).
		WithServiceName(db.Name + suffixPods).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(db))).
		WithPodManagementPolicy(appsv1.ParallelPodManagement).
		WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.OnDeleteStatefulSetStrategyType)).
		WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
			WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType).
			WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
		WithRevisionHistoryLimit(2).
		WithTemplate(template).
		WithVolumeClaimTemplates(claim)), nil
}

// claimTemplate can't be changed in a StatefulSet: it stays as it was made first, and the claims themselves grow.
func claimTemplate(db *databasev1.Database, live *appsv1.StatefulSet) (*corev1ac.PersistentVolumeClaimApplyConfiguration, error) {
	size, err := resource.ParseQuantity(db.Spec.Storage.Size)
	if err != nil {
		return nil, fmt.Errorf("spec.storage.size %q: %w", db.Spec.Storage.Size, err)
	}
	if live != nil && len(live.Spec.VolumeClaimTemplates) == 1 {
		size = live.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	}
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
	if class := db.Spec.Storage.StorageClass; class != "" {
		spec.WithStorageClassName(class)
	}
	claim := corev1ac.PersistentVolumeClaim(volumeName, "").WithLabels(childLabels(db)).WithSpec(spec)
	claim.Kind, claim.APIVersion, claim.Namespace = nil, nil, nil // the API server leaves them out of templates
	return claim, nil
}

func (r *Reconciler) podTemplate(db *databasev1.Database, image string) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	patroni, err := json.Marshal(patroniTemplate(db))
	if err != nil {
		return nil, err
	}
	sum, err := restartHash(db, image)
	if err != nil {
		return nil, err
	}
	main := corev1ac.Container().WithName(postgresContainer).WithImage(image).
		WithCommand(bundleMount+"/"+launcher.Program, "run").
		WithEnv(
			fieldEnv(launcher.EnvPodName, "metadata.name"),
			fieldEnv(launcher.EnvPodIP, "status.podIP"),
			fieldEnv(launcher.EnvPodNamespace, "metadata.namespace"),
			env(launcher.EnvPGData, dataFolder),
			env(launcher.EnvAcceptCollation, db.Annotations[databasev1.AcceptCollationAnnotation]),
			env(launcher.EnvTemplate, string(patroni))).
		WithPorts(
			corev1ac.ContainerPort().WithName("postgres").WithContainerPort(databasev1.Port),
			corev1ac.ContainerPort().WithName("patroni").WithContainerPort(restPort)).
		WithVolumeMounts(
			mount(volumeName, volumeMount), mount("patroni", bundleMount).WithReadOnly(true),
			mount("run", launcher.DefaultRunDir), mount("shm", "/dev/shm"), mount("tmp", "/tmp"),
			mount("superuser", launcher.DefaultCredentialsDir).WithReadOnly(true)).
		WithSecurityContext(containerSecurity()).
		WithStartupProbe(probe("/readiness").WithPeriodSeconds(1).WithTimeoutSeconds(2).WithFailureThreshold(24 * 3600)).
		WithReadinessProbe(probe("/readiness").WithPeriodSeconds(2).WithTimeoutSeconds(2).WithFailureThreshold(2)).
		// The launcher starts a hung Patroni again. Where that doesn't help, the container is ended before another member can
		// lead, within ttl - loop_wait: the fourth probe fails after 14 s at most.
		WithLivenessProbe(probe("/liveness").WithPeriodSeconds(3).WithTimeoutSeconds(2).WithFailureThreshold(4).
			WithTerminationGracePeriodSeconds(1))
	install := r.installer()
	setResources(main, db.Spec.Resources)
	setResources(install, db.Spec.Resources)
	spec := corev1ac.PodSpec().
		WithServiceAccountName(db.Name).
		WithSecurityContext(podSecurity()).
		WithTerminationGracePeriodSeconds(stopGrace).
		WithInitContainers(install).
		WithContainers(main).
		WithVolumes(emptyDir("patroni", ""), emptyDir("run", corev1.StorageMediumMemory), emptyDir("shm", corev1.StorageMediumMemory),
			emptyDir("tmp", ""),
			corev1ac.Volume().WithName("superuser").WithSecret(corev1ac.SecretVolumeSource().
				WithSecretName(db.Name+suffixSuperuser).WithDefaultMode(0o440)))
	if err := place(spec, db); err != nil {
		return nil, err
	}
	return corev1ac.PodTemplateSpec().WithLabels(childLabels(db)).
		WithAnnotations(map[string]string{restartAnnotation: sum}).WithSpec(spec), nil
}

// installer copies Patroni into the pod.
func (r *Reconciler) installer() *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().WithName(installContainer).WithImage(r.PatroniImage).
		WithCommand("/"+launcher.Program, "install", bundleMount).
		WithVolumeMounts(mount("patroni", bundleMount)).WithSecurityContext(containerSecurity())
}

// restartHash identifies what the spec wishes of a pod.
func restartHash(db *databasev1.Database, image string) (string, error) {
	var resources corev1.ResourceRequirements // none is as good as an empty one
	if db.Spec.Resources != nil {
		resources = *db.Spec.Resources
	}
	return hash(struct {
		Image                                                  string
		Resources, Affinity, Tolerations, NodeSelector, Spread any
	}{
		image, resources, db.Spec.Affinity, db.Spec.Tolerations, db.Spec.NodeSelector, db.Spec.TopologySpreadConstraints,
	})
}

// place sets what the spec says of where pods run; by default replicas prefer different nodes, in different zones.
func place(spec *corev1ac.PodSpecApplyConfiguration, db *databasev1.Database) error {
	affinity := db.Spec.Affinity
	if affinity == nil {
		affinity = &corev1.Affinity{PodAntiAffinity: spread(db)}
	}
	constraints := db.Spec.TopologySpreadConstraints
	if constraints == nil {
		constraints = zones(db)
	}
	for _, part := range []struct{ from, to any }{
		{affinity, &spec.Affinity}, {db.Spec.Tolerations, &spec.Tolerations}, {db.Spec.NodeSelector, &spec.NodeSelector},
		{constraints, &spec.TopologySpreadConstraints}, {db.Spec.ImagePullSecrets, &spec.ImagePullSecrets},
	} {
		content, err := json.Marshal(part.from) // the API's types and their apply configurations have one JSON form
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, part.to); err != nil {
			return err
		}
	}
	return nil
}

func setResources(c *corev1ac.ContainerApplyConfiguration, resources *corev1.ResourceRequirements) {
	if resources == nil {
		return
	}
	wish := corev1ac.ResourceRequirements()
	if len(resources.Requests) > 0 {
		wish.WithRequests(resources.Requests)
	}
	if len(resources.Limits) > 0 {
		wish.WithLimits(resources.Limits)
	}
	c.WithResources(wish)
}

func podSecurity() *corev1ac.PodSecurityContextApplyConfiguration {
	return corev1ac.PodSecurityContext().
		WithRunAsUser(podUser).WithRunAsGroup(podUser).WithFSGroup(podUser).WithRunAsNonRoot(true).
		WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
}

func containerSecurity() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().WithReadOnlyRootFilesystem(true).WithAllowPrivilegeEscalation(false).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
}

func spread(db *databasev1.Database) *corev1.PodAntiAffinity {
	return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
		Weight:          100,
		PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: labelSelector(selectorLabels(db))},
	}}}
}

func zones(db *databasev1.Database) []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: labelSelector(selectorLabels(db)),
	}}
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(restPort)))
}

func env(name, value string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(value)
}

func fieldEnv(name, path string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(path)))
}

func mount(name, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(name).WithMountPath(path)
}

func emptyDir(name string, medium corev1.StorageMedium) *corev1ac.VolumeApplyConfiguration {
	source := corev1ac.EmptyDirVolumeSource()
	if medium != "" {
		source.WithMedium(medium)
	}
	return corev1ac.Volume().WithName(name).WithEmptyDir(source)
}
