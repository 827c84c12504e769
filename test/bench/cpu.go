package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpu is the CPU time that processes have used, by the process's name as Linux has it. It is empty elsewhere.
type cpu map[string]time.Duration

// Names of processes in cpu.
const (
	postgresProcess  = "postgres"
	apiServerProcess = "kube-apiserver"
	etcdProcess      = "etcd"
)

// minus is what was used after an earlier look.
func (c cpu) minus(earlier cpu) cpu {
	used := cpu{}
	for name, time := range c {
		if time > earlier[name] {
			used[name] = time - earlier[name]
		}
	}
	return used
}

// cpuOfAll is the CPU time of this process and all that it started and that still runs, with their children. A look
// at it costs about as much as a few statements.
func cpuOfAll() cpu {
	used := cpu{}
	for _, p := range ownProcesses() {
		used[p.name] += p.own
		if p.pid != os.Getpid() { // whose dead children are of earlier measurements
			used[p.name] += p.children
		}
	}
	return used
}

// share is the CPU time of the whole machine, and the part of it that this run used.
type share struct{ machine, run time.Duration }

func shareNow() share {
	var s share
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s
	}
	line, _, _ := strings.Cut(string(content), "\n")
	// The fields are user, nice, system, idle, iowait, irq, softirq and steal.
	for i, field := range strings.Fields(line) {
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			ticks, _ := strconv.Atoi(field)
			s.machine += time.Duration(ticks) * tick
		}
	}
	for _, p := range ownProcesses() {
		s.run += p.own + p.children
	}
	return s
}

// others is how many CPUs all other programs kept busy since an earlier moment, on average.
func (s share) others(earlier share, d time.Duration) float64 {
	return max(0, ((s.machine-earlier.machine)-(s.run-earlier.run)).Seconds()/d.Seconds())
}

// ownProcesses are this process and all that it started and that still run.
func ownProcesses() []process {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	all := map[int]process{}
	for _, file := range files {
		if p, ok := readProcess(file); ok {
			all[p.pid] = p
		}
	}
	var own []process
	for pid, p := range all {
		if descends(all, pid, os.Getpid()) {
			own = append(own, p)
		}
	}
	return own
}

type process struct {
	pid, parent   int
	name          string
	own, children time.Duration
}

// tick is the unit of CPU time: Linux tells every program that it were a hundredth of a second.
const tick = 10 * time.Millisecond

// readProcess reads a process's file stat; see proc(5).
func readProcess(file string) (process, bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return process{}, false // it has ended
	}
	before, rest, _ := strings.Cut(string(content), " (")
	end := strings.LastIndex(rest, ") ") // the name may hold anything
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 15 {
		return process{}, false
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s)
		return n
	}
	ticks := func(first int) time.Duration {
		return time.Duration(number(fields[first])+number(fields[first+1])) * tick
	}
	return process{pid: number(before), parent: number(fields[1]), name: rest[:end], own: ticks(11), children: ticks(13)}, true
}

func descends(all map[int]process, pid, ancestor int) bool {
	for ; pid > 1; pid = all[pid].parent {
		if pid == ancestor {
			return true
		}
	}
	return false
}
