package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// CNI is where Debian puts the plugins that make pods' networks.
const CNI = "/usr/lib/cni"

// programs are what a node needs of the host, all of which dev/setup node installs.
var programs = []string{
	"containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables", "conntrack", "ip", "nsenter",
	CNI + "/ptp", CNI + "/host-local", CNI + "/portmap", CNI + "/loopback",
	"mount", "umount", "losetup", "mkfs.xfs", "xfs_growfs", "mkfs.ext4", "e2fsck", "resize2fs",
}

// Check says why this machine can't run a node, before anything is started.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: run this as root, or without --node")
	}
	// Unlike root's, an ordinary user's PATH may lack these, and sudo may hand it on.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin"); err != nil {
		return err
	}
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a node needs programs that are missing: %s: run dev/setup node", strings.Join(missing, ", "))
	}
	return nil
}
