import type { Env } from "../../../bus/env.ts";
import type { ChaosClient, StreamFrame } from "./client.ts";
import { askOf } from "./model-script.ts";
import type { Seeded } from "./seeded.ts";

/** Max open runs: enough that a kill hits runs in every state. */
const openMax = 24;
const beatMs = 25;
const deniedEach = 3;
/** How often a client reads the end of a run before it gives up, and the pause between two reads. */
const finalTries = 40;
const finalPauseMs = 250;
const over = ["completed", "failed", "expired", "dead"];

/** A run from its client's point of view. */
export interface ChaosRun {
  readonly number: number;
  readonly tenant: string;
  readonly key: string;
  readonly body: object;
  /** Every resume token that the server returned for the run; empty until it was accepted. */
  readonly tokens: Set<string>;
  /** Every final state that the server reported. */
  readonly ends: Set<string>;
  /** The frames of the run's log, by connection, in order. */
  readonly heard: StreamFrame[][];
}

/** A decided approval request. `decisions` has both values if lost replies hide which decision came first. */
export interface Decision {
  readonly rule: string;
  readonly call: string;
  readonly decisions: Set<string>;
}

/** The clients of the server under test: they submit runs, follow streams, poll states and decide approvals. */
export class ChaosLoad {
  readonly runs: ChaosRun[] = [];
  readonly decided = new Map<string, Decision>();
  /** Number of runs that may have been submitted. */
  admitted = 0;
  /** Responses that a correct server never gives. */
  readonly wrong: string[] = [];
  readonly #client: ChaosClient;
  readonly #seeded: Seeded;
  readonly #env: Env;
  readonly #keys: Readonly<Record<string, string>>;
  #stopped = false;
  /** Approval requests decided so far, but those after an unknown outcome. */
  #firstRequests = 0;

  constructor(client: ChaosClient, seeded: Seeded, env: Env, keys: Readonly<Record<string, string>>) {
    this.#client = client;
    this.#seeded = seeded;
    this.#env = env;
    this.#keys = keys;
  }

  /** Runs that were accepted and are not known to have ended. */
  get open(): ChaosRun[] {
    return this.runs.filter(({ tokens, ends }) => tokens.size > 0 && ends.size === 0);
  }

  /** Runs that are not known to be accepted yet. */
  get unheard(): ChaosRun[] {
    return this.runs.filter(({ tokens }) => tokens.size === 0);
  }

  /** Generates load until `stop` is called. */
  async live(): Promise<void> {
    await Promise.all([this.#accept(), this.#look(), this.#decide()]);
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Returns the final record and log of a run from the server. Repeats a read that meets the end of a host. */
  async final({
    tenant,
    tokens,
  }: ChaosRun): Promise<{ record: Readonly<Record<string, unknown>>; log: StreamFrame[] }> {
    const [token = ""] = tokens;
    const key = this.#keyOf(tenant);
    let record: Readonly<Record<string, unknown>> = {};
    let log: StreamFrame[] = [];
    for (let tries = 0; tries < finalTries; tries++) {
      if (tries > 0) await this.#pause(finalPauseMs);
      const frames: StreamFrame[] = [];
      const answer = await this.#client.get(`/chat/runs/${token}`, key);
      const isWhole = await this.#client.listen(`/chat/runs/${token}/stream`, key, (frame) => frames.push(frame));
      record = answer?.json ?? {};
      log = frames.filter(({ event }) => event === "session_event");
      if (answer?.status === 200 && isWhole) break;
    }
    return { record, log };
  }

  #keyOf(tenant: string): string {
    return this.#keys[tenant] ?? "";
  }

  #beat(): Promise<void> {
    return this.#pause(beatMs);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#env.timer(ms, resolve));
  }

  async #accept(): Promise<void> {
    const asking: Promise<void>[] = [];
    while (!this.#stopped) {
      if (this.runs.length < this.admitted && this.open.length + this.unheard.length < openMax) {
        const run = this.#make(this.runs.length);
        this.runs.push(run);
        asking.push(this.#submit(run));
      } else await this.#beat();
    }
    await Promise.all(asking);
  }

  #make(number: number): ChaosRun {
    const names = Object.keys(this.#keys);
    const tenant = names[number % names.length] ?? "";
    const manifest = this.#seeded.int(3) === 0 ? "asked" : "plain";
    const body = { manifest, messages: [{ role: "user", content: askOf(number) }] };
    return { number, tenant, key: `chaos-${number}`, body, tokens: new Set(), ends: new Set(), heard: [] };
  }

  /**
   * Submits a run until it is accepted. Repeats a request with the same key if its reply was lost, and sometimes if it was not.
   */
  async #submit(run: ChaosRun): Promise<void> {
    let again = this.#seeded.int(5) === 0 ? 1 : 0;
    while (!this.#stopped) {
      const headers = ["idempotency-key", run.key];
      const answer = await this.#client.post("/chat", this.#keyOf(run.tenant), run.body, headers);
      if (answer?.status === 202) {
        run.tokens.add(String(answer.json.resume_token));
        if (again-- > 0) continue;
        if (this.#seeded.int(2) === 0) void this.#follow(run);
        return;
      }
      const isPassing = answer === null || answer.status >= 500 || answer.status === 409;
      if (!isPassing) this.wrong.push(`run ${run.number} was answered ${answer.status}`);
      await this.#beat();
    }
  }

  /** Follows the stream of a run and reconnects after each interruption. */
  async #follow(run: ChaosRun): Promise<void> {
    const [token = ""] = run.tokens;
    while (!this.#stopped && run.ends.size === 0) {
      const heard: StreamFrame[] = [];
      run.heard.push(heard);
      await this.#client.listen(`/chat/runs/${token}/stream`, this.#keyOf(run.tenant), (frame) => {
        if (frame.event === "session_event") heard.push(frame);
      });
      await this.#beat();
    }
  }

  /** Polls the states of open runs. */
  async #look(): Promise<void> {
    while (!this.#stopped) {
      for (const run of this.open) {
        const [token = ""] = run.tokens;
        const answer = await this.#client.get(`/chat/runs/${token}`, this.#keyOf(run.tenant));
        if (answer === null) break;
        if (answer.status === 404) this.wrong.push(`run ${run.number} was accepted, but the server does not know it`);
        if (over.includes(String(answer.json.status))) run.ends.add(endOf(answer.json));
      }
      await this.#beat();
    }
  }

  /** Approves or denies pending requests. */
  async #decide(): Promise<void> {
    while (!this.#stopped) {
      for (const [tenant, key] of Object.entries(this.#keys)) {
        const answer = await this.#client.get("/approvals?status=pending", key);
        const items = (answer?.json.items ?? []) as Readonly<Record<string, string>>[];
        for (const item of items) await this.#decideOne(tenant, item);
      }
      await this.#beat();
    }
  }

  async #decideOne(tenant: string, item: Readonly<Record<string, string>>): Promise<void> {
    const { id = "", rule_id: rule = "", tool_call_id: call = "" } = item;
    // One of three first requests is denied, so that even a short load checks what a denied call does.
    const isDenied = rule === "outcome-unknown" ? this.#seeded.int(3) === 0 : this.#firstRequests++ % deniedEach === 0;
    const decision = isDenied ? "denied" : "approved";
    const known = this.decided.get(id) ?? { rule, call, decisions: new Set<string>() };
    this.decided.set(id, known);
    const isRepeated = known.decisions.has(decision);
    // Record the decision first: it may take effect even if the reply is lost, or says that the server could not confirm it.
    known.decisions.add(decision);
    const answer = await this.#client.post(`/approvals/${id}/decide`, this.#keyOf(tenant), { decision });
    const isRefused = answer !== null && answer.status >= 400 && answer.status < 500;
    if (isRefused && !isRepeated) known.decisions.delete(decision);
  }
}

/** Returns the outcome of a run as text, which must never change. */
export function endOf(record: Readonly<Record<string, unknown>>): string {
  const { status, final, error } = record;
  return JSON.stringify({ status, final, error });
}
