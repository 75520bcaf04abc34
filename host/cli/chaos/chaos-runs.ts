import type { CommandIo } from "../command.ts";
import { ChaosClient } from "./client.ts";
import { checkInvariants, type Invariant } from "./invariants.ts";
import { ChaosLoad } from "./load.ts";
import { Outside } from "./outside.ts";
import { Restarts } from "./restarts.ts";
import { Seeded } from "./seeded.ts";
import type { Target } from "./target.ts";

/** Upper bounds of the random time between two faults: requests received from runs, then a delay. */
const life = { requestsBelow: 24, msBelow: 80 };
/** The next fault comes earlier if no request arrives for this long. */
const idleMsMax = 5_000;
/** Max wait after the last fault; a run that is still open then counts as stuck. A refused webhook is retried after a minute. */
const restMsMax = 240_000;
const beatMs = 100;
const hookSecret = "whsec_c3ZjIGNoYW9zIHNlY3JldCBvbiBsb29wYmFjaw==";

/** The size of a chaos test. */
export interface ChaosSize {
  readonly seed: number;
  readonly runs: number;
  readonly kills: number;
}

/** The result of a chaos test. */
export interface ChaosOutcome {
  readonly invariants: readonly Invariant[];
  readonly restarts: Restarts["result"];
  readonly counts: Readonly<Record<"runs" | "kills" | "model_calls" | "effects" | "decisions" | "webhooks", number>>;
  /** Number of faults of each kind. */
  readonly faults: Readonly<Record<string, number>>;
}

/** Runs the load, disturbs the servers and checks the invariants. */
export class ChaosRuns {
  readonly #size: ChaosSize;
  readonly #targetOf: (settings: Readonly<Record<string, string>>) => Target;
  readonly #io: CommandIo;
  readonly #crashes: string[] = [];
  /** Number of requests received from runs. */
  #requests = 0;
  #onRequest: () => void = () => {};

  /** `targetOf` makes the servers, which have these settings among others. */
  constructor(size: ChaosSize, targetOf: (settings: Readonly<Record<string, string>>) => Target, io: CommandIo) {
    this.#size = size;
    this.#targetOf = targetOf;
    this.#io = io;
  }

  async live(): Promise<ChaosOutcome> {
    const { env } = this.#io;
    const { seed, runs, kills } = this.#size;
    const outside = new Outside(env, new Seeded(seed));
    const keys = Object.fromEntries(["chaos-a", "chaos-b"].map((tenant) => [tenant, `svc_${env.id()}`]));
    const target = this.#targetOf(settings(await outside.listen(), keys));
    target.onCrash = (words) => void this.#crashes.push(words);
    const client = new ChaosClient(() => target.url);
    const load = new ChaosLoad(client, new Seeded(seed + 1), env, keys);
    const restarts = new Restarts();
    outside.onActivity = (run) => {
      restarts.seen(run, env.monotonic());
      this.#requests++;
      this.#onRequest();
    };
    try {
      await target.start();
      const living = load.live();
      const done = await this.#strikeAll(target, load, outside, restarts);
      await target.settle();
      load.admitted = runs;
      await this.#rest(load, outside);
      load.stop();
      await living;
      const invariants = await checkInvariants(load, outside);
      const alone = {
        name: "a server ends only when it is killed or declared dead",
        checked: kills + 1,
        broken: this.#crashes,
      };
      return {
        invariants: [...invariants, alone],
        restarts: restarts.result,
        faults: target.faults,
        counts: {
          runs: load.runs.length,
          kills: done,
          model_calls: outside.modelCalls,
          effects: outside.effects.length,
          decisions: load.decided.size,
          webhooks: outside.hooks.length,
        },
      };
    } finally {
      load.stop();
      await target.end();
      await client.close();
      outside.close();
    }
  }

  /** Disturbs the servers at moments determined by the seed. Each fault admits another part of the runs. */
  async #strikeAll(target: Target, load: ChaosLoad, outside: Outside, restarts: Restarts): Promise<number> {
    const { env, stop } = this.#io;
    const { seed, runs, kills } = this.#size;
    const moments = new Seeded(seed + 2);
    for (let kill = 0; kill < kills; kill++) {
      if (stop.aborted || this.#crashes.length > 0) return kill;
      load.admitted = Math.ceil((runs * (kill + 1)) / (kills + 1));
      await this.#requestsMore(1 + moments.int(life.requestsBelow));
      await this.#pause(moments.int(life.msBelow));
      await target.strike(
        () => restarts.killed(outside.busy, env.monotonic()),
        () => restarts.ready(env.monotonic()),
      );
    }
    return kills;
  }

  /** Resolves after this many more requests, or when no request arrives for a while. */
  async #requestsMore(count: number): Promise<void> {
    const { env } = this.#io;
    const until = this.#requests + count;
    for (let before = -1; before < this.#requests && this.#requests < until; ) {
      before = this.#requests;
      await new Promise<void>((resolve) => {
        const idle = env.timer(idleMsMax, resolve);
        this.#onRequest = () => {
          idle.cancel();
          resolve();
        };
      });
    }
  }

  /** Waits until all runs have ended and their webhooks have arrived. */
  async #rest(load: ChaosLoad, outside: Outside): Promise<void> {
    const { env, stop } = this.#io;
    const until = env.monotonic() + restMsMax;
    const told = (token: string): boolean => outside.hooks.some(({ body }) => body.includes(token));
    while (env.monotonic() < until && !stop.aborted && this.#crashes.length === 0) {
      const isAccepted = load.runs.length >= load.admitted && load.unheard.length === 0;
      if (isAccepted && load.open.length === 0 && load.runs.every(({ tokens: [token = ""] }) => told(token))) return;
      await this.#pause(beatMs);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#io.env.timer(ms, resolve));
  }
}

const scopes = ["chat:read", "chat:write", "runs:read", "runs:write", "approvals:read", "approvals:write"];

/** Returns the settings of the server, which point to the simulated model, tools and webhook endpoint. */
function settings(outside: string, keys: Readonly<Record<string, string>>): Record<string, string> {
  const callers = Object.entries(keys).map(([tenant_id, key]) => [key, { tenant_id, sub: "chaos", scopes }]);
  return {
    SVC_PORT: "0",
    SVC_LOG_FORMAT: "json",
    SVC_RATE_LIMIT: "0",
    SVC_ENVIRONMENT: "development",
    SVC_ALLOW_INSECURE: "true",
    SVC_FIBER_CONCURRENCY: "16",
    SVC_AUTH_MODE: "api_key",
    SVC_AUTH_API_KEYS: JSON.stringify(Object.fromEntries(callers)),
    SVC_MODEL_ROUTES: JSON.stringify({ chaos: { provider: "openai", model: "chaos" } }),
    SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ openai: { base_url: `${outside}/model`, api_key: "chaos" } }),
    SVC_DEFAULT_MODEL_ID: "chaos",
    SVC_CHAOS_RECORDER_URL: `${outside}/effects`,
    SVC_WEBHOOK_ENDPOINTS: JSON.stringify({
      chaos: { url: `${outside}/hook`, secret: hookSecret, tenants: "*", private: true },
    }),
  };
}
