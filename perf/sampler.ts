import { setTimeout as sleep } from "node:timers/promises";
import { readRssKib } from "./process-stats.ts";

/** Resident memory of one server over time. */
export interface RssSeries {
  readonly label: string;
  readonly epochMs: number[];
  readonly mib: number[];
}

const sampleMs = 200;
const settleChecks = 8;
const settleShare = 0.005;
const settleMaxMs = 12_000;

/** Samples the memory of processes five times a second until it is stopped. */
export class RssSampler {
  readonly series: RssSeries[] = [];
  readonly #watched = new Map<string, { series: RssSeries; pids: readonly number[] }>();
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = setInterval(() => this.#sample(), sampleMs);
  }

  watch(label: string, pids: readonly number[]): void {
    const series = { label, epochMs: [], mib: [] };
    this.series.push(series);
    this.#watched.set(label, { series, pids });
  }

  unwatch(label: string): void {
    this.#watched.delete(label);
  }

  /** The samples of a label between two times. */
  between(label: string, fromEpochMs: number, toEpochMs: number): number[] {
    const found = this.series.filter((series) => series.label === label);
    return found.flatMap(({ epochMs, mib }) =>
      mib.filter((_, at) => (epochMs[at] ?? 0) >= fromEpochMs && (epochMs[at] ?? 0) <= toEpochMs),
    );
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    for (const { series, pids } of this.#watched.values()) {
      const kib = readRssKib(pids);
      if (Number.isNaN(kib)) continue;
      series.epochMs.push(Date.now());
      series.mib.push(kib / 1024);
    }
  }
}

/** Waits, for at most 12 seconds, until memory changes by less than 0.5% in 1.6 seconds. Returns MiB. */
export async function settledRssMib(pids: readonly number[]): Promise<number> {
  const recent: number[] = [];
  const deadline = performance.now() + settleMaxMs;
  while (performance.now() < deadline) {
    recent.push(readRssKib(pids));
    const last = recent.slice(-settleChecks);
    const spread = Math.max(...last) - Math.min(...last);
    if (last.length === settleChecks && spread < settleShare * Math.max(...last)) break;
    await sleep(sampleMs);
  }
  return (recent.at(-1) ?? Number.NaN) / 1024;
}
