import { setTimeout as sleep } from "node:timers/promises";
import { Histogram } from "./histogram.ts";
import type { Lab, MeasuredTurns, Target } from "./lab.ts";
import { busyWord } from "./machine-load.ts";
import type { RepeatJob } from "./protocol.ts";
import { addCounts, type BodiesResult, median } from "./results.ts";
import { bodiesScenario } from "./scenarios.ts";

const bodyBytes = 1024 * 1024;
const warmUpTurnsMax = 20_000;
/** Time for the neighbour's first bodies to arrive. */
const settleMs = 300;

/** Measures the time to first token of other tenants: alone, and while one tenant sends the largest bodies of keys. */
export async function runBodiesScenario(lab: Lab): Promise<BodiesResult | undefined> {
  const { options } = lab;
  const { manifest, model, connections, rampMs, rounds, warmUp } = bodiesScenario;
  const targets = await lab.startTargets(["svc"], bodiesScenario.name);
  try {
    const [svc] = targets.list;
    if (svc === undefined) return undefined;
    const load = {
      manifest,
      model,
      streams: options.streams ?? bodiesScenario.streams,
      rampMs,
      turnsMax: options.turns ?? Number.MAX_SAFE_INTEGER,
      secondsMax: options.seconds ?? bodiesScenario.secondsMax,
    };
    if (options.warmUp > 0)
      await lab.warmUp(svc, { ...warmUp, rampMs: 0, turnsMax: warmUpTurnsMax, secondsMax: options.warmUp });
    const alone: MeasuredTurns[] = [];
    const beside: MeasuredTurns[] = [];
    const answers: Record<string, number> = {};
    let seconds = 0;
    const job = repeatJob(svc, warmUp.manifest, connections);
    for (let round = 1; round <= (options.rounds ?? rounds); round += 1) {
      alone.push(await lab.runTurns(svc, load));
      const neighbour = await lab.startRepeating(job);
      await sleep(settleMs);
      let result: MeasuredTurns;
      try {
        result = await lab.runTurns(svc, load);
      } finally {
        const sent = await neighbour.stop();
        addCounts(answers, sent.answers);
        seconds += sent.elapsedMs / 1000;
      }
      beside.push(result);
      lab.note(
        `bodies ${round}: TTFT p99 ${quantile(alone.slice(-1), 0.99).toFixed(1)} ms alone, ${quantile([result], 0.99).toFixed(1)} ms beside${busyWord(result.othersShare)}`,
      );
    }
    return {
      streams: load.streams,
      connections,
      bodyBytes: Buffer.byteLength(job.body),
      seconds,
      answers,
      alone: latencyOf(alone),
      beside: latencyOf(beside),
    };
  } finally {
    await targets.stop();
  }
}

function repeatJob(svc: Target, manifest: string, connections: number): RepeatJob {
  return {
    kind: "repeat",
    port: svc.port,
    path: "/chat",
    headers: svc.neighbourHeaders,
    body: bodyOfKeys(manifest),
    connections,
  };
}

/** Returns a request body of 1 MiB with as many keys as the limits allow, per object and in total. Text fills the rest. */
export function bodyOfKeys(manifest: string): string {
  const { objects, members } = bodiesScenario;
  const object = `{${Array.from({ length: members }, (_, n) => `"key-${String(n).padStart(8, "0")}":0`).join(",")}}`;
  const keys = Array.from({ length: objects }, (_, n) => `"o${n}":${object}`).join(",");
  const around = (text: string): string =>
    `{"manifest":"${manifest}","messages":[{"role":"user","content":"Say something.","rest":"${text}",${keys}}]}`;
  return around("x".repeat(bodyBytes - around("").length));
}

function latencyOf(runs: readonly MeasuredTurns[]): BodiesResult["alone"] {
  const errors: Record<string, number> = {};
  for (const run of runs) addCounts(errors, run.errors);
  return {
    turns: runs.reduce((sum, run) => sum + Histogram.from(run.ttft).count, 0),
    ttftP50Ms: quantile(runs, 0.5),
    ttftP99Ms: quantile(runs, 0.99),
    ttftMaxMs: quantile(runs, 1),
    turnP50Ms: median(runs.map((run) => Histogram.from(run.turn).quantileMs(0.5))),
    errors,
    othersShare: median(runs.map((run) => run.othersShare)),
  };
}

/** A quantile of the time to first token over all runs. */
function quantile(runs: readonly MeasuredTurns[], q: number): number {
  const all = new Histogram();
  for (const run of runs) all.add(run.ttft);
  return all.quantileMs(q);
}
