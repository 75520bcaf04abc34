import { mkdtempSync, rmSync } from "node:fs";
import { loadTokens } from "../test/support/mock-model/behaviours.ts";
import { type Child, startChild } from "./child.ts";
import type { Options, TargetName } from "./options.ts";
import type { IdleJob, IdleResult, Job, TurnJob, TurnResult } from "./protocol.ts";
import { RssSampler } from "./sampler.ts";
import { models } from "./scenarios.ts";
import { type SvcProcess, startSvc } from "./svc-process.ts";

/** The processes that every scenario uses, and a way to start a server under test. */
export interface Lab {
  readonly sampler: RssSampler;
  readonly options: Options;
  startTargets(names: readonly TargetName[], label: string): Promise<Targets>;
  runTurns(target: Target, load: TurnLoad): Promise<TurnResult>;
  /** Load before measuring, so that code is compiled. The harness's own processes need each kind of it once. */
  warmUp(target: Target, load: TurnLoad): Promise<void>;
  openIdle(job: IdleJob): Promise<IdleResult>;
  closeIdle(): Promise<void>;
  note(line: string): void;
  close(): Promise<void>;
}

/** Where turns are sent to. */
export interface Target {
  readonly name: TargetName;
  readonly label: string;
  readonly port: number;
  readonly pids: readonly number[];
  readonly headers: Readonly<Record<string, string>>;
  /** Throws when the server is gone. */
  assertAlive(): void;
}

interface Targets {
  readonly list: readonly Target[];
  stop(): Promise<void>;
}

/** What a turn job says besides how to reach the target. */
interface TurnLoad
  extends Pick<TurnJob, "streams" | "rampMs" | "turnsMax" | "secondsMax">,
    Partial<Pick<TurnJob, "threads">> {
  readonly manifest: string;
  readonly model: string;
}

const turnTimeoutMs = 30_000;
/** What a job may take beyond its own times: connecting, and turns that are waited for at its end. */
const jobGraceMs = 120_000;
const messages = [{ role: "user", content: "Please say the sixty-four tokens, one after the other." }];

export const tokenChars = (loadTokens[0] ?? "").length;
export const tokensPerTurn = loadTokens.length;

/** Starts the mock model, the relay and the load client, each in a process of its own. */
export async function openLab(options: Options, note: (line: string) => void): Promise<Lab> {
  const mock = await startChild<number>(new URL("./mock.ts", import.meta.url));
  const relay = await startChild<number>(new URL("./relay.ts", import.meta.url), [
    String(mock.ready),
    JSON.stringify(models),
  ]);
  let client = await startClient();
  const dir = mkdtempSync(`${options.dataDir}/run-`);
  const sampler = new RssSampler();
  /** The server under test, from when its start begins. */
  let running: Promise<SvcProcess> | undefined;
  const closing = new AbortController();
  let threadSets = 0;
  const warm = new Set<string>();

  async function startTargets(names: readonly TargetName[], label: string): Promise<Targets> {
    const list: Target[] = [];
    if (names.includes("direct")) list.push(ownTarget("direct", mock, label));
    if (names.includes("relay")) list.push(ownTarget("relay", relay, label));
    if (names.includes("svc")) {
      closing.signal.throwIfAborted();
      const launch = { launcher: options.svc, dir: `${dir}/${label}`, mockPort: mock.ready, env: options.env };
      running = startSvc({ ...launch, signal: closing.signal });
      const { apiKey, ...svc } = await running;
      list.push({ ...svc, name: "svc", label: `svc, ${label}`, headers: { authorization: `Bearer ${apiKey}` } });
    }
    for (const target of list) sampler.watch(target.label, target.pids);
    const stop = async () => {
      for (const target of list) sampler.unwatch(target.label);
      await stopSvc();
    };
    return { list, stop };
  }

  /** A start that failed has ended its process by itself. */
  async function stopSvc(): Promise<void> {
    const svc = await running?.catch(() => undefined);
    running = undefined;
    await svc?.stop();
  }

  async function runTurns(target: Target, load: TurnLoad): Promise<TurnResult> {
    threadSets += 1;
    const timeoutMs = load.rampMs + load.secondsMax * 1000 + jobGraceMs;
    const result = await ask<TurnResult>(jobOf(target, load, `t${threadSets}`), timeoutMs);
    target.assertAlive();
    return result;
  }

  /** A client that got stuck spoils one job, not those after it. */
  async function ask<Result>(job: Job, timeoutMs: number): Promise<Result> {
    try {
      return await client.ask<Result>(job, timeoutMs);
    } catch (error) {
      await client.stop();
      if (!closing.signal.aborted) client = await startClient();
      throw error;
    }
  }

  return {
    sampler,
    options,
    note,
    startTargets,
    runTurns,
    async warmUp(target, load) {
      const key = `${target.name === "svc" ? target.label : target.name} ${load.model}`;
      if (!warm.has(key)) await runTurns(target, load);
      warm.add(key);
    },
    openIdle: (job) => ask<IdleResult>(job, jobGraceMs),
    closeIdle: () => ask<void>({ kind: "close" }, jobGraceMs),
    async close() {
      closing.abort(new Error("the harness is ending"));
      sampler.stop();
      await stopSvc();
      await Promise.all([mock.stop(), relay.stop(), client.stop()]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function startClient(): Promise<Child<"ready">> {
  return startChild(new URL("./load-client.ts", import.meta.url));
}

function ownTarget(name: TargetName, child: Child<number>, label: string): Target {
  const { pid, ready, assertAlive } = child;
  return { name, label: `${name}, ${label}`, port: ready, pids: [pid], headers: {}, assertAlive };
}

function jobOf(target: Target, load: TurnLoad, threadPrefix: string): TurnJob {
  const { manifest, model, streams, rampMs, turnsMax, secondsMax } = load;
  const direct = target.name === "direct";
  const body = direct
    ? { model, messages, stream: true, stream_options: { include_usage: true } }
    : { manifest, thread_id: "{thread}", messages };
  const paths = { direct: "/v1/chat/completions", relay: "/relay", svc: "/chat/stream" };
  return {
    kind: "turns",
    port: target.port,
    path: paths[target.name],
    headers: target.headers,
    body: JSON.stringify(body),
    dialect: direct ? "openai" : "frames",
    expected: loadTokens.join(""),
    threads: load.threads ?? { prefix: threadPrefix },
    streams,
    rampMs,
    turnsMax,
    secondsMax,
    turnTimeoutMs,
    serverPids: target.pids,
  };
}
