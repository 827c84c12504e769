// Package process starts the processes of a cluster so that none of them outlives the program that started it,
// however that program ends.
//
// Two mechanisms work together. On Linux the kernel kills a child when the thread that started it ends. Everywhere
// a guard, a copy of this program out of reach of its terminal and signals, holds the reading end of a pipe whose
// writing end only the supervisor has: when the pipe closes, the guard kills what is left and removes the cluster's folder.
//
// Invariants:
//   - every process of a Group is known to the guard before Group.Start returns;
//   - the folder is removed only after the processes are gone, by the guard or, if that was killed, by Guard.Release;
//   - processes are killed, not asked: their data is thrown away, so there is nothing for them to finish;
//   - the guard writes nothing and holds no file of its parent's but the lock it was given.
package process
