import { mkdtempSync, rmSync } from "node:fs";
import { loadTokens } from "../test/support/mock-model/behaviours.ts";
import { type Child, startChild } from "./child.ts";
import { othersShare, readLoad } from "./machine-load.ts";
import { isSvc, type Options, type TargetName } from "./options.ts";
import type {
  CrowdJob,
  CrowdResult,
  IdleJob,
  IdleResult,
  Job,
  RepeatJob,
  RepeatResult,
  TurnJob,
  TurnResult,
} from "./protocol.ts";
import { RssSampler } from "./sampler.ts";
import { models } from "./scenarios.ts";
import { type SvcProcess, startSvc } from "./svc-process.ts";

/** The processes that all scenarios use, and functions to start servers under test and to run load. */
export interface Lab {
  readonly sampler: RssSampler;
  readonly options: Options;
  readonly mockPort: number;
  startTargets(names: readonly TargetName[], label: string, changes?: SvcChanges): Promise<Targets>;
  runTurns(target: Target, load: TurnLoad): Promise<MeasuredTurns>;
  /** Runs load before a measurement, so that code is compiled. The harness's own processes need it once per kind of load. */
  warmUp(target: Target, load: TurnLoad): Promise<void>;
  openIdle(job: IdleJob): Promise<IdleResult>;
  closeIdle(): Promise<void>;
  runCrowd(job: CrowdJob): Promise<CrowdResult>;
  /** Repeats one request, from a process of its own, until it is stopped. */
  startRepeating(job: RepeatJob): Promise<{ stop(): Promise<RepeatResult> }>;
  note(line: string): void;
  close(): Promise<void>;
}

/** A process that receives turns. */
export interface Target {
  readonly name: TargetName;
  readonly label: string;
  readonly port: number;
  readonly pids: readonly number[];
  readonly headers: Readonly<Record<string, string>>;
  /** The headers of a caller of another tenant; for svc only. */
  readonly neighbourHeaders: Readonly<Record<string, string>>;
  /** Throws if the server has ended. */
  assertAlive(): void;
}

interface Targets {
  readonly list: readonly Target[];
  stop(): Promise<void>;
}

/** Changes to the default start of a server under test. */
export interface SvcChanges {
  readonly env?: Readonly<Record<string, string>>;
  readonly mockPort?: number;
  /** Replaces the directory of the options. */
  readonly dataDir?: string;
  /** Fills the data directory before the server starts. */
  readonly prepare?: (dataDir: string) => Promise<void>;
}

/** The parameters of a turn job except those of the target. */
interface TurnLoad
  extends Pick<TurnJob, "streams" | "rampMs" | "turnsMax" | "secondsMax" | "marksDir">,
    Partial<Pick<TurnJob, "threads">> {
  readonly manifest: string;
  readonly model: string;
  /** True for turns of svc without a thread. */
  readonly stateless?: boolean;
}

export interface MeasuredTurns extends TurnResult {
  /** The prefix of the ids of the job's turns. */
  readonly prefix: string;
  /** The share of the machine that other processes used, from 0 to 1. */
  readonly othersShare: number;
}

const turnTimeoutMs = 30_000;
/** Extra time of a job for connecting and for its last turns. */
const jobGraceMs = 120_000;
const question = "Please say the sixty-four tokens, one after the other.";

export const tokenChars = (loadTokens[0] ?? "").length;
export const tokensPerTurn = loadTokens.length;

/** Starts the mock model, the relay and the load client, each in its own process. */
export async function openLab(options: Options, note: (line: string) => void): Promise<Lab> {
  const mock = await startChild<number>(new URL("./mock.ts", import.meta.url));
  const relay = await startChild<number>(new URL("./relay.ts", import.meta.url), [
    String(mock.ready),
    JSON.stringify(models),
  ]);
  let client = await startClient();
  let neighbour: Child<"ready"> | undefined;
  const dirs: string[] = [];
  const dir = newDir(options.dataDir);
  const sampler = new RssSampler();
  /** The servers under test, added when their start begins. */
  const running = new Set<Promise<SvcProcess>>();
  const closing = new AbortController();
  let threadSets = 0;
  const warm = new Set<string>();

  function newDir(parent: string): string {
    const made = mkdtempSync(`${parent}/run-`);
    dirs.push(made);
    return made;
  }

  async function startTargets(names: readonly TargetName[], label: string, changes: SvcChanges = {}): Promise<Targets> {
    const list: Target[] = [];
    const started = new Set<Promise<SvcProcess>>();
    const stop = async () => {
      for (const target of list) sampler.unwatch(target.label);
      await stopSvc(started);
    };
    if (names.includes("direct")) list.push(ownTarget("direct", mock, label));
    if (names.includes("relay")) list.push(ownTarget("relay", relay, label));
    try {
      for (const name of names.filter(isSvc)) list.push(await startOne(name, label, changes, started));
    } catch (error) {
      await stop();
      throw error;
    }
    for (const target of list) sampler.watch(target.label, target.pids);
    return { list, stop };
  }

  async function startOne(
    name: TargetName,
    label: string,
    { env, mockPort = mock.ready, dataDir, prepare }: SvcChanges,
    started: Set<Promise<SvcProcess>>,
  ): Promise<Target> {
    closing.signal.throwIfAborted();
    const starting = startSvc({
      launcher: name === "svc-against" ? (options.against ?? options.svc) : options.svc,
      dir: `${dataDir === undefined ? dir : newDir(dataDir)}/${label}/${name}`,
      mockPort,
      prepare,
      env: { ...options.env, ...env, ...(name === "svc-node" && { SVC_HTTP_ENGINE: "node" }) },
      signal: closing.signal,
    });
    started.add(starting);
    running.add(starting);
    const { apiKey, neighbourKey, ...svc } = await starting;
    return {
      ...svc,
      name,
      label: `${name}, ${label}`,
      headers: { authorization: `Bearer ${apiKey}` },
      neighbourHeaders: { authorization: `Bearer ${neighbourKey}` },
    };
  }

  /** Stops servers. A failed start has already ended its own process. */
  async function stopSvc(started: ReadonlySet<Promise<SvcProcess>>): Promise<void> {
    for (const starting of [...started]) {
      const svc = await starting.catch(() => undefined);
      running.delete(starting);
      await svc?.stop();
    }
  }

  async function runTurns(target: Target, load: TurnLoad): Promise<MeasuredTurns> {
    threadSets += 1;
    const prefix = `t${threadSets}`;
    const timeoutMs = load.rampMs + load.secondsMax * 1000 + jobGraceMs;
    const before = readLoad();
    const result = await ask<TurnResult>(jobOf(target, load, prefix), timeoutMs);
    target.assertAlive();
    return { ...result, prefix: `${prefix}-`, othersShare: othersShare(before, readLoad()) };
  }

  /** Sends a job to the load client. A client that fails or times out is replaced, so that only one job is lost. */
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
    mockPort: mock.ready,
    startTargets,
    runTurns,
    async warmUp(target, load) {
      const key = `${isSvc(target.name) ? target.label : target.name} ${load.model}`;
      if (!warm.has(key)) await runTurns(target, load);
      warm.add(key);
    },
    openIdle: (job) => ask<IdleResult>(job, jobGraceMs),
    closeIdle: () => ask<void>({ kind: "close" }, jobGraceMs),
    runCrowd: (job) => ask<CrowdResult>(job, job.timeoutMs + jobGraceMs),
    async startRepeating(job) {
      neighbour ??= await startClient();
      const child = neighbour;
      await child.ask(job, jobGraceMs);
      return { stop: () => child.ask<RepeatResult>({ kind: "close" }, jobGraceMs) };
    },
    async close() {
      closing.abort(new Error("the harness is ending"));
      sampler.stop();
      await stopSvc(running);
      await Promise.all([mock.stop(), relay.stop(), client.stop(), neighbour?.stop()]);
      for (const made of dirs) rmSync(made, { recursive: true, force: true });
    },
  };
}

function startClient(): Promise<Child<"ready">> {
  return startChild(new URL("./load-client.ts", import.meta.url));
}

function ownTarget(name: TargetName, child: Child<number>, label: string): Target {
  const { pid, ready, assertAlive } = child;
  const addressed = { port: ready, headers: {}, neighbourHeaders: {} };
  return { name, label: `${name}, ${label}`, pids: [pid], ...addressed, assertAlive };
}

function jobOf(target: Target, load: TurnLoad, threadPrefix: string): TurnJob {
  const { manifest, model, streams, rampMs, turnsMax, secondsMax, marksDir, stateless = false } = load;
  const traced = marksDir !== undefined;
  // A traced turn contains its id in the message and in the headers, so that each process can recognise it.
  const messages = [{ role: "user", content: traced ? `${question} {thread}` : question }];
  const direct = target.name === "direct";
  const body = direct
    ? { model, messages, stream: true, stream_options: { include_usage: true } }
    : { manifest, ...(!stateless && { thread_id: "{thread}" }), messages };
  const paths: Partial<Record<TargetName, string>> = { direct: "/v1/chat/completions", relay: "/relay" };
  return {
    kind: "turns",
    port: target.port,
    path: paths[target.name] ?? "/chat/stream",
    headers: traced ? { ...target.headers, "x-request-id": "{thread}" } : target.headers,
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
    ...(traced && { marksDir }),
  };
}

/** Returns the header lines of a caller of a server under test. */
export function headOf({ headers }: Target): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
}
