//go:build linux

package faults

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNobodyElseIsHarmed: a process that isn't the pod's gets no signal, and its network no rule, whatever led to it.
func TestNobodyElseIsHarmed(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = child.Wait() // it is killed
	}()
	p, err := read(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	const uid = types.UID("2f1c6a52-6f0c-4b0e-9d55-7a3f5a0b8f11")
	for _, pod := range []types.UID{uid, ""} {
		if err := p.signal(pod, syscall.SIGKILL); !errors.Is(err, errGone) {
			t.Errorf("a signal to the process of another pod: %v", err)
		}
		if found, err := processes(pod); err != nil || len(found) > 0 {
			t.Errorf("the pod %q has %d processes, %v", pod, len(found), err)
		}
		n := &network{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0", UID: pod}}, hold: p}
		if output, err := n.run(context.Background(), "true"); !errors.Is(err, errGone) {
			t.Errorf("a command in another network: %q, %v", output, err)
		}
		if _, err := networkOf(t.Context(), n.pod); err == nil {
			t.Error("a pod without processes has a network")
		}
	}
	select {
	case <-ended:
		t.Fatal("the process has ended")
	default:
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if _, err := read(child.Process.Pid); err == nil {
		t.Error("it was read after its end")
	}
}

func TestProcessesByWhatTheyDo(t *testing.T) {
	kinds := map[string]func(process) bool{"launcher": isLauncher, "patroni": isPatroni, "postmaster": isPostmaster, "backend": isPostgres}
	for _, test := range []struct {
		arguments []string
		want      []string
	}{
		{[]string{"/patroni/databases-patroni", "run"}, []string{"launcher"}},
		{[]string{"/patroni/databases-patroni", "credentials", "on_start", "primary", "db"}, nil},
		{[]string{"/patroni/bin/python3.11", "-I", "-B", "-m", "patroni", "/run/databases/patroni.yml"}, []string{"patroni"}},
		{[]string{"/usr/lib/postgresql/15/bin/postgres", "-D", "/data", "--port=5432"}, []string{"postmaster", "backend"}},
		{[]string{"postgres: db: walwriter "}, []string{"backend"}},
		{[]string{"/pause"}, nil},
	} {
		for name, is := range kinds {
			want := false
			for _, w := range test.want {
				want = want || w == name
			}
			if got := is(process{arguments: test.arguments}); got != want {
				t.Errorf("%q is a %s: %t", test.arguments, name, got)
			}
		}
	}
	parent, child := process{pid: 7, parent: 1}, process{pid: 8, parent: 7}
	if got := first([]process{child, parent}); got.pid != 7 {
		t.Errorf("the first of the two is %d", got.pid)
	}
}
