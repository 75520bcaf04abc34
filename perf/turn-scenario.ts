import { setTimeout as sleep } from "node:timers/promises";
import { Histogram } from "./histogram.ts";
import { type Lab, type MeasuredTurns, type Target, tokenChars, tokensPerTurn } from "./lab.ts";
import { busyWord } from "./machine-load.ts";
import { isSvc, type TargetName } from "./options.ts";
import type { TurnResult } from "./protocol.ts";
import { addCounts, type MemoryResult, median, type Row, sumCounts } from "./results.ts";
import { settledRssMib } from "./sampler.ts";
import type { TurnScenario } from "./scenarios.ts";

const warmUpTurnsMax = 20_000;
const pauseMs = 200;
/** Min streams to report the memory of a live turn; with fewer, fluctuations of the heap hide it. */
const liveStreamsMin = 500;

interface Run extends MeasuredTurns {
  readonly rssMib: number;
}

/** Runs a scenario on all its targets in alternating rounds, so that changes of the machine affect all of them alike. */
export async function runTurnScenario(
  scenario: TurnScenario,
  lab: Lab,
): Promise<{ rows: Row[]; live: MemoryResult["live"][number] | undefined }> {
  const { options } = lab;
  const names = options.targets.filter((name) => scenario.relayed || isSvc(name));
  const load = {
    manifest: scenario.manifest,
    model: scenario.model,
    streams: options.streams ?? scenario.streams,
    rampMs: scenario.rampMs,
    turnsMax: options.turns ?? scenario.turnsMax,
    secondsMax: options.seconds ?? scenario.secondsMax,
  };
  const targets = await lab.startTargets(names, scenario.name);
  try {
    const warmUp = { ...scenario.warmUp, rampMs: 0, turnsMax: warmUpTurnsMax, secondsMax: options.warmUp };
    for (const target of options.warmUp > 0 ? targets.list : []) await lab.warmUp(target, warmUp);
    const svc = targets.list.find((target) => target.name === "svc");
    const beforeMib = svc === undefined ? Number.NaN : await settledRssMib(svc.pids);
    const runs = new Map<Target, Run[]>(targets.list.map((target) => [target, []]));
    for (let round = 1; round <= (options.rounds ?? scenario.rounds); round += 1) {
      for (const [target, list] of runs) {
        const result = await lab.runTurns(target, load);
        const samples = lab.sampler.between(target.label, result.windowFromEpochMs, result.windowToEpochMs);
        list.push({ ...result, rssMib: median(samples) });
        lab.note(`${scenario.name} ${round} ${target.name}: ${describe(result)}${busyWord(result.othersShare)}`);
        await sleep(pauseMs);
      }
    }
    const rows = [...runs].map(([target, list]) => rowOf(scenario, load.streams, target.name, list, runs));
    const held = scenario.rampMs > 0 && load.streams >= liveStreamsMin;
    return { rows, live: held ? liveOf(load.streams, beforeMib, svc && runs.get(svc)) : undefined };
  } finally {
    await targets.stop();
  }
}

function rowOf(
  scenario: TurnScenario,
  streams: number,
  target: TargetName,
  runs: readonly Run[],
  all: ReadonlyMap<Target, readonly Run[]>,
): Row {
  const others = (name: TargetName) => [...all].find(([other]) => other.name === name)?.[1];
  const relay = target === "relay" ? undefined : others("relay");
  const direct = target === "direct" ? undefined : others("direct");
  const against = target === "svc" ? others("svc-against") : undefined;
  const errors: Record<string, number> = {};
  const ttft = new Histogram();
  const turn = new Histogram();
  for (const run of runs) {
    addCounts(errors, run.errors);
    ttft.add(run.ttft);
    turn.add(run.turn);
  }
  const of = (value: (run: Run) => number, list: readonly Run[] = runs) => median(list.map(value));
  return {
    scenario: scenario.name,
    title: scenario.title,
    streams,
    target,
    turnsPerSecond: of(turnsPerSecond),
    framesPerSecond: of((run) => perSecond(run.frames, run)),
    tokensPerSecond: of(tokensPerSecond),
    ttftP50Ms: of(ttftP50),
    ttftP99Ms: of((run) => Histogram.from(run.ttft).quantileMs(0.99)),
    turnP50Ms: of((run) => Histogram.from(run.turn).quantileMs(0.5)),
    turnP99Ms: of((run) => Histogram.from(run.turn).quantileMs(0.99)),
    errors,
    rssMib: of((run) => run.rssMib),
    cpuSeconds: of((run) => run.serverCpuMs / 1000),
    cpuPerTurnMicros: of(cpuPerTurn),
    clientCpuPerTurnMicros: of((run) => (run.clientCpuMs * 1000) / turnsWorth(run)),
    ratioToRelay: relay && of(turnsPerSecond) / of(turnsPerSecond, relay),
    cpuRatioToRelay: relay && of(cpuPerTurn) / of(cpuPerTurn, relay),
    cpuRatioToAgainst: against && median(runs.map((run, round) => cpuPerTurn(run) / cpuPerTurn(against[round] ?? run))),
    rateToDirect: direct && of(tokensPerSecond) / of(tokensPerSecond, direct),
    ttftOverDirectMs: direct && median(runs.map((run, round) => ttftP50(run) - ttftP50(direct[round] ?? run))),
    ttft: ttft.toData(),
    turn: turn.toData(),
    rounds: runs.map((run) => ({
      turnsPerSecond: turnsPerSecond(run),
      tokensPerSecond: tokensPerSecond(run),
      ttftP50Ms: ttftP50(run),
      cpuPerTurnMicros: cpuPerTurn(run),
      othersShare: run.othersShare,
    })),
  };
}

function liveOf(
  streams: number,
  beforeMib: number,
  runs: readonly Run[] | undefined,
): MemoryResult["live"][number] | undefined {
  if (runs === undefined) return undefined;
  const duringMib = Math.max(...runs.map((run) => run.rssMib));
  return { streams, beforeMib, duringMib, kibPerTurn: ((duringMib - beforeMib) * 1024) / streams };
}

/** The number of turns by received tokens: a short window also contains parts of turns, whose work counts too. */
function turnsWorth(run: TurnResult): number {
  return run.tokenChars / tokenChars / tokensPerTurn;
}

function turnsPerSecond(run: TurnResult): number {
  return perSecond(run.turns, run);
}

function tokensPerSecond(run: TurnResult): number {
  return perSecond(run.tokenChars / tokenChars, run);
}

function cpuPerTurn(run: TurnResult): number {
  return (run.serverCpuMs * 1000) / turnsWorth(run);
}

function ttftP50(run: TurnResult): number {
  return Histogram.from(run.ttft).quantileMs(0.5);
}

function perSecond(count: number, run: TurnResult): number {
  return (count * 1000) / run.windowMs;
}

function describe(result: TurnResult): string {
  const errors = sumCounts(result.errors) === 0 ? "no error" : JSON.stringify(result.errors);
  return `${turnsPerSecond(result).toFixed(0)} turns/s, ${cpuPerTurn(result).toFixed(0)} us a turn, TTFT ${ttftP50(result).toFixed(2)} ms, ${errors}`;
}
