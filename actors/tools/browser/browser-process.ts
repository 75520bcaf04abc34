import { type ChildProcess, fork } from "node:child_process";
import type { Readable } from "node:stream";
import type { Logger } from "pino";
import type { Env, Timer } from "../../../bus/env.ts";
import { lazily } from "../../../bus/lazily.ts";
import { FairSemaphore } from "../../../bus/queues/fair-semaphore.ts";
import type { EgressEvent } from "../../../governance/egress/outgoing.ts";
import { egressRouteOf } from "../../../governance/egress/route.ts";
import { readHostPort } from "../../../governance/settings/browser-settings.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import {
  type Order,
  packed,
  type Report,
  reportsFd,
  Unpacker,
  type Visit,
  type VisitFailure,
  type VisitOutcome,
} from "./messages.ts";

/** Concurrent visits of this process of svc, and of one tenant there. */
const visitsMax = 8;
const ofTenantMax = 4;
/** Visits of a tenant that wait for their turn. */
const waitingMax = 100;
/** Later than the end that the process itself sets to a visit, also on a machine where it starts slowly. */
const graceMs = 20_000;
/** Time without visits after which the process ends. */
const idleMs = 60_000;
const stderrMax = 2_000;

/** The parts of a thread that the process needs. */
export interface BrowserDeps {
  readonly env: Pick<Env, "timer" | "id">;
  readonly settings: Pick<Settings, "browserProxyBind" | "egressProxy" | "egressCaFile" | "testResolve">;
  readonly log: Pick<Logger, "warn">;
  /** Position of this thread among those with actors, and their number. */
  readonly thread: number;
  readonly threads: number;
}

interface Running {
  readonly onEvent: (event: EgressEvent) => void;
  readonly done: (outcome: VisitOutcome) => void;
}

/** The child process that drives browsers: Playwright and the proxy. It starts with the first visit and ends when it is idle. */
export class BrowserProcess {
  readonly #deps: BrowserDeps;
  readonly #permits: FairSemaphore;
  readonly #route: () => ReturnType<typeof egressRouteOf>;
  readonly #running = new Map<string, Running>();
  #child: ChildProcess | null = null;
  #idle: Timer | null = null;

  constructor(deps: BrowserDeps) {
    this.#deps = deps;
    this.#route = lazily(() => egressRouteOf(deps.settings));
    const share = (limit: number): number => Math.max(1, Math.floor(limit / deps.threads));
    this.#permits = new FairSemaphore(share(visitsMax), share(ofTenantMax));
  }

  /** Visits a page when it is the tenant's turn; an abort ends the visit. */
  async visit(
    tenantId: string,
    visit: Visit,
    onEvent: (event: EgressEvent) => void,
    signal: AbortSignal,
  ): Promise<VisitOutcome> {
    if (!(await this.#permit(tenantId, signal))) return signal.aborted ? interrupted : busy;
    try {
      return await this.#run(visit, onEvent, signal);
    } finally {
      this.#permits.free(tenantId);
    }
  }

  /** Ends the process; its visits fail. */
  close(): void {
    this.#idle?.cancel();
    this.#child?.kill("SIGKILL");
  }

  #run(visit: Visit, onEvent: (event: EgressEvent) => void, signal: AbortSignal): Promise<VisitOutcome> {
    if (signal.aborted) return Promise.resolve(interrupted);
    const { env } = this.#deps;
    const id = env.id();
    const child = this.#started();
    const send = (order: Order): void => void child.stdin?.write(packed(order));
    return new Promise<VisitOutcome>((resolve) => {
      // A process that does not end a visit is stuck.
      const kill = (): void => void child.kill("SIGKILL");
      let timer = env.timer(visit.timeoutMs + graceMs, kill);
      const abort = (): void => {
        send({ kind: "end", id });
        timer.cancel();
        timer = env.timer(graceMs, kill);
      };
      signal.addEventListener("abort", abort, { once: true });
      this.#running.set(id, {
        onEvent,
        done: (outcome) => {
          timer.cancel();
          signal.removeEventListener("abort", abort);
          this.#running.delete(id);
          if (this.#running.size === 0) this.#idle = env.timer(idleMs, kill);
          resolve(outcome);
        },
      });
      send({ kind: "visit", id, visit });
    });
  }

  #started(): ChildProcess {
    this.#idle?.cancel();
    this.#idle = null;
    if (this.#child !== null) return this.#child;
    const { settings, thread, log } = this.#deps;
    const child = startChild();
    this.#child = child;
    let stderr = "";
    const reports = new Unpacker<Report>((report) => {
      const running = this.#running.get(report.id);
      if (report.kind === "done") running?.done(report.outcome);
      else running?.onEvent(report.event);
    });
    const pipe = child.stdio[reportsFd] as Readable;
    pipe.on("data", (bytes: Buffer) => {
      if (this.#child === child) reports.push(bytes);
    });
    pipe.on("error", () => {});
    child.stderr?.on("data", (bytes: Buffer) => {
      stderr = `${stderr}${bytes.toString("latin1")}`.slice(-stderrMax);
    });
    const ended = (): void => {
      if (this.#child !== child) return;
      this.#child = null;
      if (this.#running.size > 0) log.warn({ stderr }, "the process for browsers has ended during visits");
      for (const { done } of [...this.#running.values()]) done(lost);
      this.#idle?.cancel();
      this.#idle = null;
    };
    child.on("error", ended);
    child.on("exit", ended);
    // A process that ends early does not read everything.
    child.stdin?.on("error", () => {});
    const { host, port } = readHostPort(settings.browserProxyBind, "SVC_BROWSER_PROXY_BIND");
    const bind = { host, port: port === 0 ? 0 : port + thread };
    child.stdin?.write(packed({ kind: "start", bind, route: this.#route() }));
    return child;
  }

  /** Waits for the tenant's turn. False if the call is over first, or too many wait. */
  #permit(tenantId: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    if (this.#permits.take(tenantId)) return Promise.resolve(true);
    if (this.#permits.waiting(tenantId) >= waitingMax) return Promise.resolve(false);
    return new Promise((resolve) => {
      const who = this.#deps.env.id();
      const leave = (): void => {
        this.#permits.leave(tenantId, who);
        resolve(false);
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#permits.await(tenantId, who, () => {
        signal.removeEventListener("abort", leave);
        resolve(true);
      });
    });
  }
}

const interrupted: VisitFailure = { error: "interrupted", text: "the call was given up" };
const busy: VisitFailure = { error: "rate_limited", text: "too many pages of this tenant wait for a browser" };
const lost: VisitFailure = { error: "transport_unavailable", text: "the process for browsers has ended" };

/** Starts the process without the environment of svc, which holds secrets. */
function startChild(): ChildProcess {
  return fork(new URL("./browser-child.ts", import.meta.url), [], {
    env: {},
    execArgv: ["--max-old-space-size=512", "--import", new URL("../../../strip-types.js", import.meta.url).href],
    stdio: ["pipe", "ignore", "pipe", "pipe", "ipc"],
  });
}
