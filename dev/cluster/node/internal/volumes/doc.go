// Package volumes makes the volumes of a node: each is a file, on a loop device, with a file system of its own, so that
// it is really full when it is full. It hands them to Kubernetes as local PersistentVolumes, whose owner kubelet sets to
// a pod's fsGroup as it does for real disks.
//
// The controller that provisions and deletes is Kubernetes' own library for that. It does not grow volumes, so that is
// done here.
//
// Invariants:
//   - a volume's capacity is the size of its file, which holds the file system's own data too, as on a real disk;
//   - every step may be repeated: one that was interrupted is found half done and completed;
//   - a volume's capacity is raised only after its file system has grown;
//   - a volume with data that its reclaim policy keeps is never deleted.
package volumes
