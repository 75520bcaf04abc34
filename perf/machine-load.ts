import { readFileSync } from "node:fs";
import { listProcessTree, readCpuMs } from "./process-stats.ts";

/** From this share of the machine on, others make figures doubtful. */
export const busyShare = 0.1;

/** Processor time since some moment, in milliseconds. */
export interface LoadReading {
  /** Of all processors, idle or not. */
  readonly totalMs: number;
  /** Worked for anybody, or taken away by the machine that this one is a part of. */
  readonly busyMs: number;
  /** Worked for the harness and what it has started. */
  readonly ownMs: number;
}

const tickMs = 10;

/** How the machine stands now; all NaN where there is no /proc. */
export function readLoad(): LoadReading {
  try {
    const machine = readMachine(readFileSync("/proc/stat", "utf8"));
    return { ...machine, ownMs: readCpuMs(listProcessTree(process.pid)) };
  } catch {
    return { totalMs: Number.NaN, busyMs: Number.NaN, ownMs: Number.NaN };
  }
}

/**
 * Of the text of /proc/stat. What interrupts take is nobody's: most of it is the network of the load itself. Guests are in the
 * time of users already.
 */
export function readMachine(stat: string): Pick<LoadReading, "totalMs" | "busyMs"> {
  const fields = /^cpu +(.*)$/m.exec(stat)?.[1]?.split(" ").map(Number) ?? [];
  const [user = Number.NaN, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softIrq = 0, stolen = 0] = fields;
  const busy = user + nice + system + stolen;
  return { totalMs: (busy + idle + wait + irq + softIrq) * tickMs, busyMs: busy * tickMs };
}

/** What others took of the machine between two readings, from 0 to 1; NaN where it is not known. */
export function othersShare(from: LoadReading, to: LoadReading): number {
  const others = to.busyMs - from.busyMs - (to.ownMs - from.ownMs);
  return Math.min(1, Math.max(0, others / (to.totalMs - from.totalMs)));
}

/** A word for a line about a round, empty where the machine was the harness's own. */
export function busyWord(share: number): string {
  return share >= busyShare ? `, busy: ${(share * 100).toFixed(0)}% by others` : "";
}
