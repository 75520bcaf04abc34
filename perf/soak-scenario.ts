import type { Lab } from "./lab.ts";
import { busyWord } from "./machine-load.ts";
import type { TurnResult } from "./protocol.ts";
import { median, type SoakResult } from "./results.ts";
import { soakScenario } from "./scenarios.ts";

/** Runs many turns over the same threads and compares memory between quarters of the turns. */
export async function runSoakScenario(lab: Lab): Promise<SoakResult | undefined> {
  const { manifest, model, threads } = soakScenario;
  const targets = await lab.startTargets(["svc"], soakScenario.name);
  try {
    const [svc] = targets.list;
    if (svc === undefined) return undefined;
    const result = await lab.runTurns(svc, {
      manifest,
      model,
      streams: Math.min(lab.options.streams ?? soakScenario.streams, threads),
      rampMs: 0,
      turnsMax: lab.options.turns ?? soakScenario.turnsMax,
      secondsMax: lab.options.seconds ?? soakScenario.secondsMax,
      threads: { prefix: "soak", count: threads },
    });
    const edges = quarterEdges(result);
    const quartersMib = [0, 1, 2, 3].map((quarter) =>
      median(lab.sampler.between(svc.label, edges[quarter] ?? 0, edges[quarter + 1] ?? 0)),
    );
    const turnsPerSecond = (result.turns * 1000) / result.windowMs;
    lab.note(
      `soak: ${result.turnsWithRamp} turns, ${turnsPerSecond.toFixed(0)} turns/s, ${quartersMib.map((mib) => mib.toFixed(0)).join(", ")} MiB by quarter${busyWord(result.othersShare)}`,
    );
    return {
      turns: result.turnsWithRamp,
      threads,
      seconds: result.windowMs / 1000,
      turnsPerSecond,
      errors: result.errors,
      quartersMib,
      growth: (quartersMib[3] ?? Number.NaN) / (quartersMib[1] ?? Number.NaN),
    };
  } finally {
    await targets.stop();
  }
}

/** Returns the times at which 0, 25, 50, 75 and 100 percent of the turns were done, in epoch milliseconds. Interpolates between samples. */
export function quarterEdges(result: Pick<TurnResult, "progress" | "turnsWithRamp" | "windowFromEpochMs">): number[] {
  const points: [number, number][] = [[result.windowFromEpochMs, 0]];
  for (let at = 0; at < result.progress.length; at += 2)
    points.push([result.progress[at] ?? 0, result.progress[at + 1] ?? 0]);
  return [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const turns = share * result.turnsWithRamp;
    const after = Math.max(
      1,
      points.findIndex(([, done]) => done >= turns),
    );
    const [fromMs, from] = points[after - 1] ?? [0, 0];
    const [toMs, to] = points[after] ?? [fromMs, from];
    return to === from ? toMs : fromMs + ((toMs - fromMs) * (turns - from)) / (to - from);
  });
}
