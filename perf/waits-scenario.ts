import { setTimeout as sleep } from "node:timers/promises";
import { Histogram } from "./histogram.ts";
import type { Lab, Target } from "./lab.ts";
import { threadId } from "./protocol.ts";
import type { WaitsResult } from "./results.ts";
import { settledRssMib } from "./sampler.ts";
import { waitsScenario } from "./scenarios.ts";
import { openWaiting, type WaitingStream } from "./waits-load.ts";

/** Connections that open at a time. */
const openingMax = 64;
const askTimeoutMs = 60_000;
const endMs = 30_000;

type Figures = [p50: number, p99: number, max: number];

/** Measures what a run that waits for its client takes, its open stream included, and how soon it goes on when it is answered. */
export async function runWaitsScenario(lab: Lab): Promise<WaitsResult | undefined> {
  const targets = await lab.startTargets(["svc"], waitsScenario.name);
  try {
    const [svc] = targets.list;
    if (svc === undefined) return undefined;
    const runs = Math.min(lab.options.streams ?? waitsScenario.runs, waitsScenario.runs);
    await answer(svc, await open(svc, "warm", waitsScenario.warmUp), waitsScenario.answersPerSecond);
    const beforeMib = await restingRssMib(svc.pids);
    const waiting = await open(svc, "wait", runs);
    const afterMib = await restingRssMib(svc.pids);
    const { histogram, lost } = await answer(svc, shuffled(waiting), waitsScenario.answersPerSecond);
    const [resumeP50Ms, resumeP99Ms, resumeMaxMs] = [0.5, 0.99, 1].map((q) => histogram.quantileMs(q)) as Figures;
    const kibPerRun = ((afterMib - beforeMib) * 1024) / runs;
    lab.note(
      `waits: ${runs} runs, ${kibPerRun.toFixed(2)} KiB each, answer to result ${resumeP50Ms.toFixed(1)} ms p50, ${resumeP99Ms.toFixed(1)} ms p99, ${lost} lost`,
    );
    return { runs, beforeMib, afterMib, kibPerRun, resumeP50Ms, resumeP99Ms, resumeMaxMs, lost };
  } finally {
    await targets.stop();
  }
}

/** Memory when nothing has happened for a while: what waits for days is measured, and not what was in use as it came. */
async function restingRssMib(pids: readonly number[]): Promise<number> {
  await sleep(waitsScenario.restMs);
  return settledRssMib(pids);
}

/** What waits, and what its stream says when it goes on. */
export interface WaitingKind {
  readonly manifest: string;
  readonly resumedBy: string;
}

/** Opens runs that wait for their client. */
export async function open(
  svc: Target,
  prefix: string,
  count: number,
  { manifest, resumedBy }: WaitingKind = waitsScenario,
): Promise<WaitingStream[]> {
  const head = Object.entries(svc.headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
  const to = { port: svc.port, head, manifest, resumedBy };
  const found: WaitingStream[] = [];
  let next = 0;
  const openOne = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++)
      found.push(await openWaiting(to, threadId(prefix, at), askTimeoutMs));
  };
  await Promise.all(Array.from({ length: openingMax }, openOne));
  return found;
}

/** Answers one after the other, so many a second whatever becomes of those before. */
export async function answer(svc: Target, waiting: readonly WaitingStream[], perSecond: number) {
  const histogram = new Histogram();
  let lost = 0;
  const began = performance.now();
  const all = waiting.map(async (stream, at) => {
    await sleep(Math.max(0, began + (at * 1000) / perSecond - performance.now()));
    const sentAt = performance.now();
    const response = await fetch(`http://127.0.0.1:${svc.port}/chat/tool_result`, {
      method: "POST",
      headers: { ...svc.headers, "content-type": "application/json" },
      body: JSON.stringify({ thread_id: stream.thread, tool_call_id: stream.callId, content: "here" }),
    });
    const { signaled } = (await response.json()) as { signaled?: boolean };
    const late = setTimeout(() => stream.close(), endMs);
    const resumedAt = await stream.resumed;
    await stream.ended;
    clearTimeout(late);
    if (signaled && resumedAt !== null) histogram.recordMs(resumedAt - sentAt);
    else lost++;
  });
  await Promise.all(all);
  return { histogram, lost };
}

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
