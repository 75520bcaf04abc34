import { type ChildProcess, fork } from "node:child_process";
import { hostname } from "node:os";
import type { Logger } from "pino";
import type { Env } from "../bus/env.ts";
import { createLogger } from "../governance/log.ts";
import type { MetricSnapshot } from "../governance/metrics.ts";
import { SecretMask } from "../governance/secret-mask.ts";
import { holds } from "../governance/settings/duties.ts";
import type { Environment, Settings } from "../governance/settings/settings.ts";
import { probePort } from "./port.ts";
import type { FromWorker, MetricsAnswer, ToWorker } from "./sibling-metrics.ts";

// SVC_WORKERS: a parent process starts several servers, which share the port. Each is a host of the deployment. The parent serves
// nothing: it starts a server again that has ended, drains all at its own end, and collects their metrics for each other. On request
// it replaces the servers one after the other, so that some answer at any time.

/** How a process of svc is started. */
export interface WorkerProgram {
  readonly path: string;
  readonly nodeArgs: readonly string[];
  readonly args: readonly string[];
  readonly environment: Environment;
}

/** Options of the parent. */
export interface WorkersOptions {
  readonly settings: Settings;
  readonly program: WorkerProgram;
  readonly env: Env;
  readonly terminal: boolean;
  /** Asks the parent to drain all servers and to end. */
  readonly stop: AbortSignal;
  /** Calls back each time that the servers are to be replaced. */
  readonly onReplace: (callback: () => void) => void;
}

/** The pause before a server is started again; it doubles with each end that came soon after a start. */
const againMs = { first: 200, longest: 10_000 } as const;
/** A server that has run this long was started successfully. */
const soundMs = 30_000;
/** Without any server that was ready, the parent gives up after this number of ends for each. */
const endsMax = 3;
/** Max time of a server to return its metrics. */
const metricsMs = 1_500;

/** Runs the servers until the stop. Rejects if they cannot start, or if one has failed and is not started again. */
export async function superviseWorkers(options: WorkersOptions): Promise<void> {
  const { settings, stop, terminal } = options;
  const log = createLogger(settings, new SecretMask(settings.secretValues), {}, terminal);
  // The servers share a port that no other process has; for port 0 the parent chooses.
  const ports: Record<string, string> = {};
  if (holds(settings, "api")) ports.SVC_PORT = String(await probePort(settings.host, settings.port));
  if (settings.metricsPort !== 0) await probePort(settings.host, settings.metricsPort, "SVC_METRICS_PORT");
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => {});
  const workers = Array.from(
    { length: settings.workers },
    (_, at) => new Worker(at + 1, { ...options, log, ports }, failure.reject),
  );
  const ask = (worker: Worker, id: number): void => {
    const others = workers.filter((other) => other !== worker);
    void Promise.all(others.map((other) => other.metrics())).then((found) =>
      worker.send({ kind: "siblings", id, snapshots: found.flat() }),
    );
  };
  for (const worker of workers) worker.start((id) => ask(worker, id));
  let isReplacing = false;
  options.onReplace(() => {
    if (isReplacing || stop.aborted) return;
    isReplacing = true;
    void replaceAll(workers, log).finally(() => {
      isReplacing = false;
    });
  });
  const stopped = new Promise<void>((resolve) => {
    if (stop.aborted) resolve();
    else stop.addEventListener("abort", () => resolve(), { once: true });
  });
  try {
    await Promise.race([stopped, failure.promise]);
  } finally {
    log.info("draining all worker processes");
    await Promise.all(workers.map((worker) => worker.end()));
  }
}

/** Replaces one server after the other. The first successor that is not ready ends this, so that the others keep running. */
async function replaceAll(workers: readonly Worker[], log: Logger): Promise<void> {
  log.info("replacing all worker processes, one after the other");
  for (const worker of workers) {
    if (await worker.replace()) continue;
    log.error("a new worker process was not ready: the others are not replaced");
    return;
  }
  log.info("all worker processes were replaced");
}

interface WorkerOptions extends WorkersOptions {
  readonly log: Logger;
  /** Settings of the ports that the servers share. */
  readonly ports: Readonly<Record<string, string>>;
}

/** One server, and its successors. */
class Worker {
  readonly #number: number;
  readonly #options: WorkerOptions;
  readonly #fail: (error: Error) => void;
  readonly #pending = new Map<number, (snapshots: readonly MetricSnapshot[]) => void>();
  #child: ChildProcess | null = null;
  #isEnding = false;
  /** True from the request to replace the server until it has ended. */
  #isReplaced = false;
  /** Reports whether the successor is ready. */
  #onSuccessor: ((isReady: boolean) => void) | null = null;
  #wasReady = false;
  #ends = 0;
  #asked = 0;

  constructor(number: number, options: WorkerOptions, fail: (error: Error) => void) {
    this.#number = number;
    this.#options = options;
    this.#fail = fail;
  }

  /** `onAsked` is called when the server wants the metrics of the others. */
  start(onAsked: (id: number) => void): void {
    const { program, settings, env, ports } = this.#options;
    const { path, nodeArgs, args, environment } = program;
    const name = `${settings.replicaId || hostname()}-${this.#number}`;
    const child = fork(path, args, {
      execArgv: [...nodeArgs],
      env: { ...environment, ...ports, SVC_REPLICA_ID: name },
      // Its own group: Ctrl-C in a terminal reaches the parent alone, which drains the servers in order.
      detached: true,
      serialization: "advanced",
    });
    this.#child = child;
    const startedAt = env.monotonic();
    child.on("message", (message) => {
      const from = message as FromWorker;
      if (from.kind === "ready") this.#isReady();
      else if (from.kind === "ask_siblings") onAsked(from.id);
      else this.#pending.get(from.id)?.(from.snapshots);
    });
    child.on("error", (error) => this.#fail(error));
    child.on("exit", (code, signal) => {
      this.#child = null;
      for (const answer of this.#pending.values()) answer([]);
      this.#ended(env.monotonic() - startedAt, signal ?? String(code), () => this.start(onAsked));
    });
  }

  send(message: ToWorker): void {
    if (this.#child?.connected) this.#child.send(message, () => {});
  }

  /** Returns the metrics of the server; none if it does not answer. */
  metrics(): Promise<readonly MetricSnapshot[]> {
    const { promise, resolve } = Promise.withResolvers<readonly MetricSnapshot[]>();
    if (!this.#child?.connected) return Promise.resolve([]);
    const id = ++this.#asked;
    const late = this.#options.env.timer(metricsMs, () => answer([]));
    const answer = (snapshots: MetricsAnswer["snapshots"]): void => {
      late.cancel();
      this.#pending.delete(id);
      resolve(snapshots);
    };
    this.#pending.set(id, answer);
    this.send({ kind: "metrics", id });
    return promise;
  }

  /** Drains the server and starts another one. Resolves with false if that one ends before it is ready. */
  replace(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#onSuccessor = resolve;
    this.#isReplaced = this.#child !== null;
    this.#child?.kill("SIGTERM");
    return promise;
  }

  /** Drains the server; resolves when it has ended. */
  end(): Promise<void> {
    this.#isEnding = true;
    this.#succeeded(false);
    const child = this.#child;
    if (child === null) return Promise.resolve();
    return new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.kill("SIGTERM");
    });
  }

  #isReady(): void {
    this.#wasReady = true;
    // The server that is to be replaced may become ready late.
    if (!this.#isReplaced) this.#succeeded(true);
  }

  #succeeded(isReady: boolean): void {
    this.#onSuccessor?.(isReady);
    this.#onSuccessor = null;
  }

  #ended(ranMs: number, how: string, again: () => void): void {
    const { log, settings, env } = this.#options;
    if (this.#isEnding) return;
    if (this.#isReplaced) {
      this.#isReplaced = false;
      again();
      return;
    }
    this.#succeeded(false);
    this.#ends = ranMs > soundMs ? 0 : this.#ends + 1;
    const which = { worker: this.#number, ended: how };
    if (!settings.respawnFailedWorkers || (!this.#wasReady && this.#ends >= endsMax)) {
      this.#fail(new Error(`worker process ${this.#number} ended with ${how}`));
      return;
    }
    const pauseMs = Math.min(againMs.longest, againMs.first * 2 ** Math.max(0, this.#ends - 1));
    log.error({ ...which, again_in_ms: pauseMs }, "a worker process ended; it is started again");
    env.timer(pauseMs, () => {
      if (!this.#isEnding) again();
    });
  }
}
