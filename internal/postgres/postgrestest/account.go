package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// serverAccount returns the account servers run as: nil, which is this
// process's own, unless that is root, as which PostgreSQL refuses to run.
func serverAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		if found, err = user.Lookup("nobody"); err != nil {
			return nil, errors.New("PostgreSQL doesn't run as root, and there is no user postgres or nobody")
		}
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("uid of user %q: %w", found.Username, err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("gid of user %q: %w", found.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// canEnter reports whether account may enter dir. It asks the kernel, as that
// account: modes, owners, symbolic links and ACLs along the way all matter.
func canEnter(dir string, account *syscall.Credential) bool {
	if account == nil {
		return true
	}
	cmd := exec.Command("/bin/sh", "-c", `test -x "$1"`, "sh", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	return cmd.Run() == nil
}
