import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { startChild } from "./child.ts";
import { isWhole, partsOf, type Turn } from "./first-word-points.ts";
import { Histogram } from "./histogram.ts";
import type { Lab, MeasuredTurns, Target } from "./lab.ts";
import { busyWord } from "./machine-load.ts";
import { flushMs, readMarks } from "./marks.ts";
import type { TargetName } from "./options.ts";
import { type FirstWordResult, median } from "./results.ts";
import { firstWordScenario } from "./scenarios.ts";

/** A directory in memory. */
const ramDir = "/dev/shm";
const pauseMs = 3 * flushMs;
const warmUpTurnsMax = 20_000;

/** A server under test, with a label for its variant. */
interface Place {
  readonly label: string;
  readonly target: Target;
}

/** One column of the table. */
interface Variant extends Place {
  readonly stateless: boolean;
  readonly turns: Turn[];
  readonly busy: number[];
}

/** Traces turns to their first token, with and without a thread, for each location of the log and of the actors. */
export async function runFirstWordScenario(lab: Lab): Promise<FirstWordResult> {
  const { options } = lab;
  const { manifest, model, rampMs, rounds, warmUp } = firstWordScenario;
  const marksDir = mkdtempSync(`${options.dataDir}/marks-`);
  const mock = await startChild<number>(new URL("./first-word-mock.ts", import.meta.url), [marksDir, model]);
  const stops: (() => Promise<void>)[] = [() => mock.stop()];
  const load = {
    manifest,
    model,
    streams: options.streams ?? firstWordScenario.streams,
    rampMs,
    turnsMax: options.turns ?? Number.MAX_SAFE_INTEGER,
    secondsMax: options.seconds ?? firstWordScenario.secondsMax,
  };
  try {
    const places = await startPlaces(lab, { mockPort: mock.ready, marksDir, stops });
    const others = await lab.startTargets(
      options.targets.filter((name) => name === "direct" || name === "relay"),
      firstWordScenario.name,
    );
    stops.push(others.stop);
    const warm = { ...warmUp, rampMs: 0, turnsMax: warmUpTurnsMax, secondsMax: options.warmUp };
    const all = [...others.list, ...places.map(({ target }) => target)];
    for (const target of options.warmUp > 0 ? all : []) await lab.warmUp(target, warm);

    const variants = places.flatMap((place): Variant[] =>
      [false, true].map((stateless) => ({ ...place, stateless, turns: [], busy: [] })),
    );
    const outside = new Map<TargetName, number[]>(others.list.map(({ name }) => [name, []]));
    for (let round = 1; round <= (options.rounds ?? rounds); round += 1) {
      for (const target of others.list) {
        const result = await lab.runTurns(target, load);
        outside.get(target.name)?.push(ttftP50(result));
        lab.note(`firstword ${round} ${target.name}: ${describe(result)}`);
      }
      for (const variant of variants) {
        const { target, stateless, turns, busy } = variant;
        const result = await lab.runTurns(target, { ...load, stateless, marksDir });
        // Waits until all processes have written their notes.
        await sleep(pauseMs);
        turns.push(...[...readMarks(marksDir, result.prefix).values()].filter(isWhole));
        busy.push(result.othersShare);
        lab.note(`firstword ${round} svc, ${titleOf(variant)}: ${describe(result)}`);
      }
    }
    return {
      streams: load.streams,
      outside: [...outside].map(([target, p50Ms]) => ({ target, ttftP50Ms: median(p50Ms) })),
      variants: variants.map((variant) => ({
        variant: titleOf(variant),
        turns: variant.turns.length,
        othersShare: median(variant.busy),
        parts: partsOf(variant.turns),
      })),
    };
  } finally {
    for (const stop of stops.reverse()) await stop();
    rmSync(marksDir, { recursive: true, force: true });
  }
}

/** Starts one server for each location of the log and of the actors. All run at once, so that their rounds can alternate. */
async function startPlaces(
  lab: Lab,
  { mockPort, marksDir, stops }: { mockPort: number; marksDir: string; stops: (() => Promise<void>)[] },
): Promise<Place[]> {
  const places: Place[] = [];
  const traced = probeEnv(lab.options.svc, marksDir);
  for (const disk of existsSync(ramDir) ? ["disk", "ram"] : ["disk"]) {
    for (const [where, threads] of [
      ["auto", "0"],
      ["1", "1"],
    ]) {
      const label = `${disk}, actors ${where}`;
      const started = await lab.startTargets(["svc"], `${firstWordScenario.name}, ${label}`, {
        mockPort,
        env: { ...traced, SVC_ACTOR_THREADS: threads ?? "" },
        ...(disk === "ram" && { dataDir: ramDir }),
      });
      stops.push(started.stop);
      places.push(...started.list.map((target) => ({ label, target })));
    }
  }
  return places;
}

/** Environment variables with which a server, started by its launcher, traces its turns. */
export function probeEnv(launcher: string, marksDir: string): Record<string, string> {
  const root = pathToFileURL(`${dirname(launcher)}/`).href;
  const probe = new URL("./first-word-probe.ts", import.meta.url).href;
  return {
    NODE_OPTIONS: `--import=${root}strip-types.js --import=${probe}`,
    PERF_MARKS_DIR: marksDir,
    PERF_SVC_ROOT: root,
  };
}

function titleOf({ label, stateless }: Variant): string {
  return `${label}, ${stateless ? "no thread" : "thread"}`;
}

function ttftP50(result: MeasuredTurns): number {
  return Histogram.from(result.ttft).quantileMs(0.5);
}

function describe(result: MeasuredTurns): string {
  const turns = Histogram.from(result.ttft).count;
  return `${turns} turns, TTFT ${ttftP50(result).toFixed(2)} ms${busyWord(result.othersShare)}`;
}
