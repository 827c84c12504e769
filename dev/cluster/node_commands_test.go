//go:build node && linux

package main

import (
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/example/databases/dev/cluster/internal/build"
	"github.com/example/databases/dev/cluster/internal/image"
)

func TestNamedClusterWithNodes(t *testing.T) {
	name := "test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		cluster("stop", "--name", name)
		removeFiles(t, name)
	})
	archive := probeImage(t)
	for _, step := range []struct {
		sentence  string
		arguments []string
		status    int
		out, errs string
	}{
		{"it starts", []string{"start", "--nodes=2", "--name", name}, 0, "export KUBECONFIG=", "cluster stop --name " + name},
		{"the node's components are healthy", []string{"status", "--name", name}, 0, "kubelet ", ""},
		{"and so are the other node's", []string{"status", "--name", name}, 0, "kubelet-node-2 ", ""},
		{"what is no image is refused", []string{"image", "import", "--name", name, program}, 1, "", "import image " + program},
		{"an image is imported", []string{"image", "import", "--name", name, archive}, 0, "", ""},
		{"and is there", []string{"image", "list", "--name", name}, 0, "localhost/probe:1", ""},
		{"on the other node, too", []string{"image", "list", "--name", name, "--node=node-2"}, 0, "localhost/probe:1", ""},
		{"a command runs on the node", []string{"node", "exec", "--name", name, "--", "hostname"}, 0, "node-1\n", ""},
		{"or on the one that is named", []string{"node", "exec", "--name", name, "--node=node-2", "--", "hostname"}, 0, "node-2\n", ""},
		{"but not on one that isn't there", []string{"node", "exec", "--name", name, "--node=node-3", "--", "hostname"}, 1, "", "the cluster has node-1, node-2"},
		{"and its status is kept", []string{"node", "exec", "--name", name, "--", "sh", "-c", "exit 7"}, 7, "", ""},
		{"it stops", []string{"stop", "--name", name}, 0, "", "has stopped"},
	} {
		out, errs, status := cluster(step.arguments...)
		if status != step.status || !strings.Contains(out, step.out) || !strings.Contains(errs, step.errs) {
			t.Fatalf("%s: exit status %d, want %d; it wrote\n%s\nand\n%s", step.sentence, status, step.status, out, errs)
		}
	}
}

func TestNodeCommandLine(t *testing.T) {
	for _, test := range []struct {
		arguments string
		status    int
		says      string
	}{
		{"run --node --components=etcd,kube-apiserver", 2, "a node needs kube-controller-manager"},
		{"run --components=etcd,kube-apiserver,kubelet", 2, "component kubelet is part of a node"},
		{"run --image=x.tar", 2, "--image needs --node"},
		{"run --node --image=/does/not/exist.tar", 2, "there is no such file"},
		{"image import", 2, "say which archives"},
		{"image fly", 2, "usage: cluster image import"},
		{"image list --name=nobody", 1, "cluster start --name nobody"},
		{"run --nodes=4", 2, "between 0 and 3"},
		{"run --nodes=-1", 2, "between 0 and 3"},
		{"node exec", 2, "say which command"},
		{"node cut now", 2, `takes no argument "now"`},
		{"node fly", 2, "cluster node cut|join"},
		{"node exec --name=nobody -- true", 1, "cluster start --name nobody"},
	} {
		_, errs, status := cluster(strings.Fields(test.arguments)...)
		if status != test.status || !strings.Contains(errs, test.says) {
			t.Errorf("cluster %s: exit status %d, want %d and %q; it wrote\n%s", test.arguments, status, test.status, test.says, errs)
		}
	}
}

func TestWhoCantHaveANodeIsTold(t *testing.T) {
	// Everybody must be able to run the program, which is in a folder of root's.
	folder, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(folder, "cluster")
	if err := os.WriteFile(copied, content, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		sentence string
		user     uint32
		path     string
		says     string
	}{
		{"an ordinary user", 65534, os.Getenv("PATH"), "a node needs root"},
		{"root without the programs", 0, folder, "programs that are missing: containerd, "},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			command := exec.Command(copied, "run", "--node")
			command.Env = []string{"PATH=" + test.path, "HOME=" + folder}
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: test.user, Gid: test.user}}
			output, err := command.CombinedOutput()
			said := string(output)
			if err == nil || !strings.Contains(said, test.says) || strings.Count(said, "\n") != 1 {
				t.Errorf("%v; it wrote\n%s", err, said)
			}
			if test.user == 0 && !strings.Contains(said, "dev/setup node") {
				t.Errorf("it does not say how to get them: %s", said)
			}
		})
	}
}

func TestABigImageIsUnpackedOnceForAllClusters(t *testing.T) {
	cache, err := build.Cache()
	if err != nil {
		t.Fatal(err)
	}
	before, _ := filepath.Glob(filepath.Join(cache, "unpacked", "*"))
	t.Cleanup(func() {
		after, _ := filepath.Glob(filepath.Join(cache, "unpacked", "*"))
		for _, stock := range after {
			if !slices.Contains(before, stock) {
				_ = os.RemoveAll(stock)
			}
		}
	})
	archive := bigImage(t)
	for _, imports := range []bool{true, false} {
		c := runWithNode(t, "--image", archive)
		c.create(t, strings.ReplaceAll(pods, "probe:1", "big:1"))
		c.awaitPods(t)
		if output, err := exec.Command(program, "image", "list", "--kubeconfig", c.state.Kubeconfig).Output(); err != nil || !strings.Contains(string(output), "localhost/big:1") {
			t.Errorf("%v: the image is not in\n%s", err, output)
		}
		if err := c.stdin.Close(); err != nil {
			t.Fatal(err)
		}
		_ = c.command.Wait()
		if said := strings.Contains(c.stderr.String(), "imported "+archive); said != imports {
			t.Errorf("it says that it imported the archive: %t, want %t:\n%s", said, imports, c.stderr.String())
		}
		c.mustLeaveNothing(t)
	}
}

// bigImage makes an archive with the probe, made big by what follows the program in its file.
func bigImage(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	probe, archive := filepath.Join(folder, "probe"), filepath.Join(folder, "big.tar")
	buildProbe(t, probe)
	file, err := os.OpenFile(probe, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(file, rand.Reader, 40<<20); err != nil { // random, so that it can't be compressed
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := image.Write(archive, "localhost/big:1", probe); err != nil {
		t.Fatal(err)
	}
	return archive
}
