package volumes

import (
	"context"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// fsTypeParameter is the StorageClass parameter that chooses the file system, as CSI drivers call it.
const fsTypeParameter = "csi.storage.k8s.io/fstype"

// hostnameLabel is the label by which a volume is bound to its node.
const hostnameLabel = "kubernetes.io/hostname"

// What failed is tried again after retryFirst, then after twice as long each time, up to retryMost.
const retryFirst, retryMost = 200 * time.Millisecond, 10 * time.Second

// provisioner makes and deletes the volumes of one node.
type provisioner struct {
	node  string
	disks disks
}

func newLimiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)
}

// Provision makes the volume that a claim asks for.
func (p *provisioner) Provision(ctx context.Context, options controller.ProvisionOptions) (*core.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode != core.PersistentVolumeFilesystem {
		return nil, controller.ProvisioningFinished, fmt.Errorf("volume mode %q: only Filesystem is possible here", *claim.Spec.VolumeMode)
	}
	fsType := options.StorageClass.Parameters[fsTypeParameter]
	if fsType == "" {
		fsType = xfs
	}
	request := claim.Spec.Resources.Requests[core.ResourceStorage]
	size, err := sizeFor(fsType, request.Value())
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	disk := p.disks.disk(options.PVName, fsType)
	if err := disk.make(ctx, size); err != nil {
		return nil, controller.ProvisioningInBackground, err
	}
	return newVolume(options, p.node, disk, size), controller.ProvisioningFinished, nil
}

func newVolume(options controller.ProvisionOptions, node string, disk disk, size int64) *core.PersistentVolume {
	mode := core.PersistentVolumeFilesystem
	return &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: options.PVName},
		Spec: core.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			MountOptions:                  options.StorageClass.MountOptions,
			VolumeMode:                    &mode,
			Capacity:                      core.ResourceList{core.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)},
			PersistentVolumeSource: core.PersistentVolumeSource{
				Local: &core.LocalVolumeSource{Path: disk.mountPoint, FSType: &disk.fsType},
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
				MatchExpressions: []core.NodeSelectorRequirement{{
					Key: hostnameLabel, Operator: core.NodeSelectorOpIn, Values: []string{node},
				}},
			}}}},
		},
	}
}

// Delete deletes a released volume with its data.
func (p *provisioner) Delete(ctx context.Context, volume *core.PersistentVolume) error {
	if !isOn(volume, p.node) {
		return &controller.IgnoredError{Reason: "the volume is on another node"}
	}
	return p.disks.disk(volume.Name, fsTypeOf(volume)).remove(ctx)
}

// ShouldProvision leaves a claim whose pod will run on another node to that node's provisioner.
func (p *provisioner) ShouldProvision(_ context.Context, claim *core.PersistentVolumeClaim) bool {
	selected := claim.Annotations["volume.kubernetes.io/selected-node"]
	return selected == "" || selected == p.node
}

func isOn(volume *core.PersistentVolume, node string) bool {
	if volume.Spec.Local == nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return false
	}
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, match := range term.MatchExpressions {
			if match.Key == hostnameLabel && len(match.Values) == 1 && match.Values[0] == node {
				return true
			}
		}
	}
	return false
}

func fsTypeOf(volume *core.PersistentVolume) string {
	if volume.Spec.Local.FSType == nil {
		return xfs
	}
	return *volume.Spec.Local.FSType
}
