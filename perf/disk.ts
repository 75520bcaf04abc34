import { closeSync, fdatasyncSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { Histogram } from "./histogram.ts";

/** The latency of flushing a small append to the disk. */
export interface FlushLatency {
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** True if the directory is in memory: its flushes cost nothing and say nothing about a disk. */
  readonly inMemory: boolean;
}

const appends = 300;
const appendBytes = 4096;
const tmpfsMagic = 0x0102_1994;

/** Appends to a file in `dir`, flushes each append, and measures the flushes. */
export function measureFlush(dir: string): FlushLatency {
  mkdirSync(dir, { recursive: true });
  const path = `${dir}/flush-probe`;
  const file = openSync(path, "w");
  const bytes = Buffer.alloc(appendBytes, "x");
  const latency = new Histogram();
  try {
    for (let n = 0; n < appends; n += 1) {
      writeSync(file, bytes);
      const began = performance.now();
      fdatasyncSync(file);
      latency.recordMs(performance.now() - began);
    }
  } finally {
    closeSync(file);
    rmSync(path);
  }
  const inMemory = statfsSync(dir).type === tmpfsMagic;
  return { p50Ms: latency.quantileMs(0.5), p99Ms: latency.quantileMs(0.99), inMemory };
}
