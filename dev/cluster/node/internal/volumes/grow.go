package volumes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// provisionedBy is the annotation by which Kubernetes remembers who made a volume.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// grower makes a volume bigger when its claim asks for more than it has.
type grower struct {
	client      kubernetes.Interface
	provisioner string
	node        string
	disks       disks
	claims      listers.PersistentVolumeClaimLister
	queue       workqueue.TypedRateLimitingInterface[types.NamespacedName]
	events      record.EventRecorder
}

func startGrower(ctx context.Context, client kubernetes.Interface, provisioner, node string, disks disks) (*grower, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().PersistentVolumeClaims()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	g := &grower{
		client: client, provisioner: provisioner, node: node, disks: disks, claims: informer.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryFirst, retryMost)),
		events: broadcaster.NewRecorder(scheme.Scheme, core.EventSource{Component: provisioner}),
	}
	enqueue := func(object any) {
		if claim, ok := object.(*core.PersistentVolumeClaim); ok && wants(claim) {
			g.queue.Add(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	context.AfterFunc(ctx, g.queue.ShutDown)
	return g, nil
}

// wants says whether a bound claim asks for more than it has.
func wants(claim *core.PersistentVolumeClaim) bool {
	want, have := claim.Spec.Resources.Requests[core.ResourceStorage], claim.Status.Capacity[core.ResourceStorage]
	return claim.Status.Phase == core.ClaimBound && want.Cmp(have) > 0
}

func (g *grower) run(ctx context.Context) {
	for {
		name, shutdown := g.queue.Get()
		if shutdown {
			return
		}
		if err := g.sync(ctx, name); err != nil {
			klog.FromContext(ctx).Error(err, "The volume has not grown", "claim", name)
			g.queue.AddRateLimited(name)
		} else {
			g.queue.Forget(name)
		}
		g.queue.Done(name)
	}
}

func (g *grower) sync(ctx context.Context, name types.NamespacedName) error {
	claim, err := g.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if errors.IsNotFound(err) || err == nil && !wants(claim) {
		return nil
	}
	if err != nil {
		return err
	}
	volume, err := g.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, meta.GetOptions{})
	if err != nil {
		return err
	}
	if volume.Annotations[provisionedBy] != g.provisioner || !isOn(volume, g.node) {
		return nil // somebody else's
	}
	if err := g.grow(ctx, claim, volume); err != nil {
		g.events.Event(claim, core.EventTypeWarning, "VolumeResizeFailed", err.Error())
		return g.setPending(ctx, claim, err)
	}
	return nil
}

// grow grows the disk first, then says so of the volume and last of the claim.
func (g *grower) grow(ctx context.Context, claim *core.PersistentVolumeClaim, volume *core.PersistentVolume) error {
	fsType := fsTypeOf(volume)
	request := claim.Spec.Resources.Requests[core.ResourceStorage]
	size, err := sizeFor(fsType, request.Value())
	if err != nil {
		return err
	}
	if err := g.disks.disk(volume.Name, fsType).grow(ctx, size); err != nil {
		return err
	}
	capacity := core.ResourceList{core.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"capacity": capacity}})
	if err != nil {
		return err
	}
	if _, err := g.client.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
		return err
	}
	if err := g.patchStatus(ctx, claim, map[string]any{"capacity": capacity, "conditions": others(claim)}); err != nil {
		return err
	}
	g.events.Eventf(claim, core.EventTypeNormal, "VolumeResizeSuccessful", "The volume has grown to %s", capacity.Storage())
	return nil
}

// setPending adds the condition that kubelet uses when a file system still has to grow, and returns cause.
func (g *grower) setPending(ctx context.Context, claim *core.PersistentVolumeClaim, cause error) error {
	pending := core.PersistentVolumeClaimCondition{
		Type:               core.PersistentVolumeClaimFileSystemResizePending,
		Status:             core.ConditionTrue,
		Reason:             "VolumeResizeFailed",
		Message:            cause.Error(),
		LastTransitionTime: meta.Now(),
	}
	for _, condition := range claim.Status.Conditions {
		if condition.Type == pending.Type && condition.Message == pending.Message {
			return cause
		}
	}
	if err := g.patchStatus(ctx, claim, map[string]any{"conditions": append(others(claim), pending)}); err != nil {
		return fmt.Errorf("%w; and the claim could not be told: %w", cause, err)
	}
	return cause
}

// others returns the claim's conditions that do not speak of growing.
func others(claim *core.PersistentVolumeClaim) []core.PersistentVolumeClaimCondition {
	return slices.DeleteFunc(slices.Clone(claim.Status.Conditions), func(c core.PersistentVolumeClaimCondition) bool {
		return c.Type == core.PersistentVolumeClaimFileSystemResizePending || c.Type == core.PersistentVolumeClaimResizing
	})
}

func (g *grower) patchStatus(ctx context.Context, claim *core.PersistentVolumeClaim, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = g.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, meta.PatchOptions{}, "status")
	return err
}
