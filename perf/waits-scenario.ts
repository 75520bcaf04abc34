import { setTimeout as sleep } from "node:timers/promises";
import { Histogram } from "./histogram.ts";
import type { Lab, Target } from "./lab.ts";
import { threadId } from "./protocol.ts";
import type { WaitsResult } from "./results.ts";
import { settledRssMib } from "./sampler.ts";
import { waitsScenario } from "./scenarios.ts";
import { openWaiting, type WaitingStream } from "./waits-load.ts";

/** Max concurrent connection attempts. */
const openingMax = 64;
const askTimeoutMs = 60_000;
const endMs = 30_000;

type Figures = [p50: number, p99: number, max: number];

/** Measures the memory of a waiting run with its open stream, and the latency of its resumption after an answer. */
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

/** Memory after a pause: runs may wait for days, so memory that was only used at their start must not count. */
async function restingRssMib(pids: readonly number[]): Promise<number> {
  await sleep(waitsScenario.restMs);
  return settledRssMib(pids);
}

/** The manifest of waiting runs, and the text of their stream that shows the resumption. */
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

/** Answers the runs at a fixed rate, without waiting for earlier answers. */
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
