package volumes

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func TestSizeFor(t *testing.T) {
	for _, test := range []struct {
		sentence      string
		fsType        string
		request, want int64
		complain      string
	}{
		{"a request is rounded up to a mebibyte", xfs, 400*mebibyte + 1, 401 * mebibyte, ""},
		{"one that fits stays", xfs, 1024 * mebibyte, 1024 * mebibyte, ""},
		{"XFS has a smallest size", xfs, 1, 300 * mebibyte, ""},
		{"and so has ext4", ext4, 1, 8 * mebibyte, ""},
		{"another file system is refused", "btrfs", 1, 0, `file system "btrfs"`},
	} {
		got, err := sizeFor(test.fsType, test.request)
		if got != test.want || (err == nil) != (test.complain == "") || err != nil && !strings.Contains(err.Error(), test.complain) {
			t.Errorf("%s: %d, %v; want %d, %q", test.sentence, got, err, test.want, test.complain)
		}
	}
}

func TestCountMounts(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
90 22 7:0 / /var/lib/volumes/a rw,relatime shared:2 - xfs /dev/loop0 rw
91 22 7:1 / /var/lib/volumes/b rw,relatime shared:3 - xfs /dev/loop1 rw
92 22 7:1 / /var/lib/kubelet/pods/1/volumes/b rw,relatime shared:3 - xfs /dev/loop1 rw
`
	for mountPoint, want := range map[string]int{"/var/lib/volumes/a": 1, "/var/lib/volumes/b": 2, "/var/lib/volumes/c": 0} {
		if got := countMounts(table, mountPoint); got != want {
			t.Errorf("%s has %d mounts, want %d", mountPoint, got, want)
		}
	}
}

func TestWants(t *testing.T) {
	for _, test := range []struct {
		sentence   string
		phase      core.PersistentVolumeClaimPhase
		want, have string
		grows      bool
	}{
		{"a claim for more than there is grows", core.ClaimBound, "2Gi", "1Gi", true},
		{"one that has what it asks for does not", core.ClaimBound, "1Gi", "1Gi", false},
		{"nor does one that has more", core.ClaimBound, "10Mi", "300Mi", false},
		{"nor one that is not bound yet", core.ClaimPending, "2Gi", "0", false},
	} {
		claim := &core.PersistentVolumeClaim{}
		claim.Status.Phase = test.phase
		claim.Spec.Resources.Requests = core.ResourceList{core.ResourceStorage: resource.MustParse(test.want)}
		claim.Status.Capacity = core.ResourceList{core.ResourceStorage: resource.MustParse(test.have)}
		if got := wants(claim); got != test.grows {
			t.Errorf("%s: %t, want %t", test.sentence, got, test.grows)
		}
	}
}

func TestAVolumeBelongsToItsNode(t *testing.T) {
	policy := core.PersistentVolumeReclaimRetain
	options := controller.ProvisionOptions{
		PVName: "pvc-1", PVC: &core.PersistentVolumeClaim{}, StorageClass: &storage.StorageClass{ReclaimPolicy: &policy},
	}
	volume := newVolume(options, "node-1", disks{folder: "/volumes"}.disk("pvc-1", ext4), 1024*mebibyte)
	if !isOn(volume, "node-1") || isOn(volume, "node-2") || isOn(&core.PersistentVolume{}, "node-1") {
		t.Error("a volume is taken for another node's")
	}
	if fsTypeOf(volume) != ext4 || volume.Spec.Local.Path != "/volumes/pvc-1" || volume.Spec.PersistentVolumeReclaimPolicy != policy {
		t.Errorf("it is not as it was asked for: %+v", volume.Spec)
	}
	if got := volume.Spec.Capacity.Storage().String(); got != "1Gi" {
		t.Errorf("its capacity is %s", got)
	}
}
