import type { Lab, Target } from "./lab.ts";
import { readOpenFilesMax } from "./process-stats.ts";
import type { IdleJob } from "./protocol.ts";
import { type MemoryResult, sumCounts } from "./results.ts";
import { settledRssMib } from "./sampler.ts";
import { idleScenario } from "./scenarios.ts";

const openTimeoutMs = 30_000;
const storeSecondsMax = 60;
/** Open files of a process besides its streams. */
const otherFiles = 200;

/** Measures the memory of svc at rest, and of each open reattach stream. */
export async function runIdleScenario(lab: Lab): Promise<Pick<MemoryResult, "atRestMib" | "idle">> {
  const targets = await lab.startTargets(["svc"], idleScenario.name);
  try {
    const [svc] = targets.list;
    if (svc === undefined) return {};
    const atRestMib = await settledRssMib(svc.pids);
    lab.note(`idle: ${atRestMib.toFixed(0)} MiB at rest`);
    return { atRestMib, idle: await measureStreams(lab, svc) };
  } finally {
    await targets.stop();
  }
}

async function measureStreams(lab: Lab, svc: Target): Promise<NonNullable<MemoryResult["idle"]>> {
  const { manifest, model, threads, warmUpStreams } = idleScenario;
  const prefix = "idle";
  const streams = Math.min(lab.options.streams ?? idleScenario.streams, (readOpenFilesMax() ?? Infinity) - otherFiles);
  const stored = await lab.runTurns(svc, {
    manifest,
    model,
    streams: 64,
    rampMs: 0,
    turnsMax: threads,
    secondsMax: storeSecondsMax,
    threads: { prefix },
  });
  if (stored.turnsWithRamp < threads)
    throw new Error(`only ${stored.turnsWithRamp} of ${threads} threads were stored: ${JSON.stringify(stored.errors)}`);

  const job = (count: number): IdleJob => ({
    kind: "idle",
    port: svc.port,
    path: "/chat/stream/{thread}",
    headers: { ...svc.headers, accept: "text/event-stream" },
    threads: { prefix, count: threads },
    streams: count,
    timeoutMs: openTimeoutMs,
  });
  await lab.openIdle(job(Math.min(warmUpStreams, streams)));
  await lab.closeIdle();
  const beforeMib = await settledRssMib(svc.pids);
  const opened = await lab.openIdle(job(streams));
  const afterMib = await settledRssMib(svc.pids);
  await lab.closeIdle();
  const kibPerStream = ((afterMib - beforeMib) * 1024) / opened.open;
  lab.note(
    `idle: ${opened.open} streams in ${(opened.elapsedMs / 1000).toFixed(1)} s, ${kibPerStream.toFixed(2)} KiB each, ${sumCounts(opened.errors)} errors`,
  );
  return { streams: opened.open, threads, beforeMib, afterMib, kibPerStream, errors: opened.errors };
}
