import type { Env } from "../../../bus/env.ts";
import type { ChaosClient, StreamFrame } from "./client.ts";
import { askOf } from "./model-script.ts";
import type { Seeded } from "./seeded.ts";

/** Runs that are open at once at most: enough for a kill to meet some in every state. */
const openMax = 24;
const beatMs = 25;
const over = ["completed", "failed", "expired", "dead"];

/** A run as its client knows it. */
export interface ChaosRun {
  readonly number: number;
  readonly tenant: string;
  readonly key: string;
  readonly body: object;
  /** Every token that was told for it; null while nobody has been told. */
  readonly tokens: Set<string>;
  /** Each state that was told in which it was over. */
  readonly ends: Set<string>;
  /** What each connection has heard of its log, in its order. */
  readonly heard: StreamFrame[][];
}

/** A request for approval that was decided, and how; both where nobody was told which of two came first. */
export interface Decision {
  readonly rule: string;
  readonly call: string;
  readonly decisions: Set<string>;
}

/** The clients of a server under chaos: they accept runs, listen, look, and decide what is asked. */
export class ChaosLoad {
  readonly runs: ChaosRun[] = [];
  readonly decided = new Map<string, Decision>();
  /** Runs may be accepted up to this number. */
  admitted = 0;
  /** Something that no server may answer. */
  readonly wrong: string[] = [];
  readonly #client: ChaosClient;
  readonly #seeded: Seeded;
  readonly #env: Env;
  readonly #keys: Readonly<Record<string, string>>;
  #stopped = false;

  constructor(client: ChaosClient, seeded: Seeded, env: Env, keys: Readonly<Record<string, string>>) {
    this.#client = client;
    this.#seeded = seeded;
    this.#env = env;
    this.#keys = keys;
  }

  /** Runs that are accepted and not known to be over. */
  get open(): ChaosRun[] {
    return this.runs.filter(({ tokens, ends }) => tokens.size > 0 && ends.size === 0);
  }

  /** Runs of which nobody has said yet that they are accepted. */
  get unheard(): ChaosRun[] {
    return this.runs.filter(({ tokens }) => tokens.size === 0);
  }

  /** Works until it is stopped. */
  async live(): Promise<void> {
    await Promise.all([this.#accept(), this.#look(), this.#decide()]);
  }

  stop(): void {
    this.#stopped = true;
  }

  /** The log of a run as the server has it at the end, and its state. */
  async final({
    tenant,
    tokens,
  }: ChaosRun): Promise<{ record: Readonly<Record<string, unknown>>; log: StreamFrame[] }> {
    const [token = ""] = tokens;
    const log: StreamFrame[] = [];
    const answer = await this.#client.get(`/chat/runs/${token}`, this.#keyOf(tenant));
    await this.#client.listen(`/chat/runs/${token}/stream`, this.#keyOf(tenant), (frame) => log.push(frame));
    return { record: answer?.json ?? {}, log: log.filter(({ event }) => event === "session_event") };
  }

  #keyOf(tenant: string): string {
    return this.#keys[tenant] ?? "";
  }

  #beat(): Promise<void> {
    return new Promise((resolve) => this.#env.timer(beatMs, resolve));
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

  /** Asks until it is told: a request whose answer was lost is sent again with its key. Some of those that were answered too. */
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

  /** Listens to a run, and again where it is cut off. */
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

  /** Looks how far runs are. */
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

  /** Decides what is asked, one way or the other. */
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
    const decision = this.#seeded.int(3) === 0 ? "denied" : "approved";
    const known = this.decided.get(id) ?? { rule, call, decisions: new Set<string>() };
    this.decided.set(id, known);
    // It may be carried out also where the answer is lost.
    known.decisions.add(decision);
    const answer = await this.#client.post(`/approvals/${id}/decide`, this.#keyOf(tenant), { decision });
    if (answer !== null && answer.status !== 200) known.decisions.delete(decision);
  }
}

/** How a run has ended, in words that must never change. */
export function endOf(record: Readonly<Record<string, unknown>>): string {
  const { status, final, error } = record;
  return JSON.stringify({ status, final, error });
}
