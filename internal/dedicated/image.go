package dedicated

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/example/databases/api/database/v1"
	"github.com/example/databases/internal/launcher"
	"github.com/example/databases/internal/ownership"
)

// inspectsLabel names the Database whose new image a pod inspects. Such a pod has none of the labels by which
// Services select.
const inspectsLabel = "database.example.com/inspects"

// chooseImage says which image the members are to run. While the spec's isn't known to fit the data, it is the one
// that they run; the problem says why.
func (r *Reconciler) chooseImage(ctx context.Context, db *databasev1.Database, o *observed) (string, *problem) {
	wanted, current := db.Spec.Image, db.Status.Image
	running := running(o)
	if running == nil {
		running = remembered(db)
	}
	if current == "" || current == wanted || running == nil {
		// Nothing has run yet, so that there is nothing to keep; the launcher itself looks before it touches a volume.
		return wanted, r.removeInspection(ctx, o)
	}
	spec, err := r.inspectionSpec(db)
	if err != nil {
		return current, &problem{reason: databasev1.ReasonApplyFailed, message: "The pod that inspects the image could not be made.", err: err}
	}
	if o.inspection == nil || o.inspection.Annotations[restartAnnotation] != spec.sum {
		return current, r.inspect(ctx, db, o, spec)
	}
	inspection, refusal := inspectionOf(o.inspection.Status.ContainerStatuses)
	switch {
	case refusal != nil:
		return current, refused(refusal)
	case inspection == nil:
		if phase := o.inspection.Status.Phase; phase == corev1.PodFailed || phase == corev1.PodSucceeded { // evicted, say
			if p := r.removeInspection(ctx, o); p != nil {
				return current, p
			}
		}
		if p := diagnosePod(o.inspection, time.Now()); p != nil {
			return current, p
		}
		return current, &problem{reason: databasev1.ReasonInspectingImage, message: fmt.Sprintf("A pod finds out what the image %q holds.", wanted)}
	}
	if p := judge(db, running, inspection); p != nil {
		return current, p
	}
	return wanted, r.removeInspection(ctx, o)
}

// judge says why an image can't run on data that another image made; nil where it can. It is a pure function.
func judge(db *databasev1.Database, running *tags, wanted *launcher.Inspection) *problem {
	accepted := db.Annotations[databasev1.AcceptCollationAnnotation]
	switch {
	case wanted.Major != running.Major:
		return &problem{reason: databasev1.ReasonMajorUpgradeRequired, stuck: true, message: fmt.Sprintf(
			"The image %q is PostgreSQL %d and the data is of PostgreSQL %d, which goes on serving: set spec.image to one of %d, or make another Database and copy the data.",
			db.Spec.Image, wanted.Major, running.Major, running.Major)}
	case wanted.CollationVersion != running.CollationVersion && wanted.CollationVersion != accepted:
		return &problem{reason: databasev1.ReasonCollationMismatch, stuck: true, message: fmt.Sprintf(
			"The image %q sorts text by version %s of the C library and the data was sorted by %s, so indexes could be wrong; the image before goes on serving. To change all the same, annotate the Database with %s=%s, then run REINDEX DATABASE and ALTER DATABASE ... REFRESH COLLATION VERSION.",
			db.Spec.Image, wanted.CollationVersion, running.CollationVersion, databasev1.AcceptCollationAnnotation, wanted.CollationVersion)}
	}
	return nil
}

// running is what the primary's image holds, or another member's while there is no primary; nil while none has got
// that far.
func running(o *observed) *tags {
	var any *tags
	for i := range o.pods {
		found := memberOf(&o.pods[i]).Tags
		if found.Major == 0 {
			continue
		}
		if o.pods[i].Name == o.leader {
			return &found
		}
		any = &found
	}
	return any
}

// remembered is what ran last, as the status has it; nil where nothing has.
func remembered(db *databasev1.Database) *tags {
	number, _, _ := strings.Cut(db.Status.Version, ".")
	major, err := strconv.Atoi(number)
	if err != nil || db.Status.CollationVersion == "" {
		return nil
	}
	return &tags{PostgresVersion: db.Status.Version, Major: major, CollationVersion: db.Status.CollationVersion}
}

// inspectionSpec is the wished inspecting pod, with what identifies it.
type inspectionSpec struct {
	pod *corev1ac.PodSpecApplyConfiguration
	sum string
}

func (r *Reconciler) inspectionSpec(db *databasev1.Database) (*inspectionSpec, error) {
	install := r.installer()
	inspect := corev1ac.Container().WithName(inspectContainer).WithImage(db.Spec.Image).
		WithCommand(bundleMount+"/"+launcher.Program, "inspect").
		WithVolumeMounts(mount("patroni", bundleMount).WithReadOnly(true)).WithSecurityContext(containerSecurity())
	spec := corev1ac.PodSpec().WithRestartPolicy(corev1.RestartPolicyNever).
		WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).
		WithSecurityContext(podSecurity()).WithInitContainers(install).WithContainers(inspect).
		WithVolumes(emptyDir("patroni", "")).WithTerminationGracePeriodSeconds(1)
	setResources(install, db.Spec.Resources)
	setResources(inspect, db.Spec.Resources)
	if err := place(spec, db); err != nil {
		return nil, err
	}
	sum, err := hash(spec)
	return &inspectionSpec{spec, sum}, err
}

// inspect starts a pod that finds out what the wanted image holds.
func (r *Reconciler) inspect(ctx context.Context, db *databasev1.Database, o *observed, spec *inspectionSpec) *problem {
	if p := r.removeInspection(ctx, o); p != nil {
		return p
	}
	waiting := &problem{reason: databasev1.ReasonInspectingImage, message: fmt.Sprintf("A pod finds out what the image %q holds.", db.Spec.Image)}
	if o.inspection != nil {
		return waiting // until the one before is gone
	}
	pod := corev1ac.Pod(db.Name+suffixInspect, db.Namespace).WithSpec(spec.pod).WithOwnerReferences(owner(db).Reference()).
		WithAnnotations(map[string]string{restartAnnotation: spec.sum}).
		WithLabels(map[string]string{inspectsLabel: db.Name, ownership.ManagedByLabel: ownership.ManagedByValue})
	found := &corev1.Pod{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: *pod.Name}, found)
	switch {
	case err == nil && metav1.IsControlledBy(found, db):
		return waiting // the cache doesn't show it yet
	case err == nil:
		e := &conflictError{"Pod", found.Name}
		return &problem{reason: databasev1.ReasonChildConflict, message: conflictMessage(e), stuck: true}
	case apierrors.IsNotFound(err):
		err = r.Client.Apply(ctx, pod, client.FieldOwner(r.FieldManager), client.DisableReadYourWritesConsistency)
	}
	if err != nil {
		return &problem{reason: databasev1.ReasonApplyFailed, message: "The pod that inspects the image could not be made.", err: err}
	}
	return waiting
}

// removeInspection deletes the inspecting pod, which has done its work or inspects another image.
func (r *Reconciler) removeInspection(ctx context.Context, o *observed) *problem {
	if o.inspection == nil || o.inspection.DeletionTimestamp != nil {
		return nil
	}
	err := r.Client.Delete(ctx, o.inspection, client.Preconditions{UID: &o.inspection.UID})
	if client.IgnoreNotFound(err) != nil {
		return &problem{reason: databasev1.ReasonApplyFailed, message: "The pod that inspected the image could not be deleted.", err: err}
	}
	return nil
}
