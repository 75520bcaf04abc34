import { readFileSync } from "node:fs";
import { listProcessTree, readCpuMs } from "./process-stats.ts";

/** Figures are doubtful if other processes used at least this share of the machine. */
export const busyShare = 0.1;

/** CPU times since boot, in milliseconds. */
export interface LoadReading {
  /** Time of all CPUs, busy or idle. */
  readonly totalMs: number;
  /** Busy time of all CPUs, with time stolen by the hypervisor. */
  readonly busyMs: number;
  /** CPU time of the harness and its child processes. */
  readonly ownMs: number;
}

const tickMs = 10;

/** Reads the current CPU times; all NaN without /proc. */
export function readLoad(): LoadReading {
  try {
    const machine = readMachine(readFileSync("/proc/stat", "utf8"));
    return { ...machine, ownMs: readCpuMs(listProcessTree(process.pid)) };
  } catch {
    return { totalMs: Number.NaN, busyMs: Number.NaN, ownMs: Number.NaN };
  }
}

/**
 * Parses /proc/stat. Interrupt time counts as not busy, because most of it is network work of the load itself. Guest time is contained in
 * user time.
 */
export function readMachine(stat: string): Pick<LoadReading, "totalMs" | "busyMs"> {
  const fields = /^cpu +(.*)$/m.exec(stat)?.[1]?.split(" ").map(Number) ?? [];
  const [user = Number.NaN, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softIrq = 0, stolen = 0] = fields;
  const busy = user + nice + system + stolen;
  return { totalMs: (busy + idle + wait + irq + softIrq) * tickMs, busyMs: busy * tickMs };
}

/** The share of the machine that other processes used between two readings, from 0 to 1; NaN if unknown. */
export function othersShare(from: LoadReading, to: LoadReading): number {
  const others = to.busyMs - from.busyMs - (to.ownMs - from.ownMs);
  return Math.min(1, Math.max(0, others / (to.totalMs - from.totalMs)));
}

/** A remark for a round's log line; empty if other processes used little of the machine. */
export function busyWord(share: number): string {
  return share >= busyShare ? `, busy: ${(share * 100).toFixed(0)}% by others` : "";
}
