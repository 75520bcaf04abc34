import { callDigest } from "../../../actors/run/context/run-pipeline.ts";
import type { StreamFrame } from "./client.ts";
import { type ChaosLoad, type ChaosRun, endOf } from "./load.ts";
import { finalOf, script } from "./model-script.ts";
import type { Outside } from "./outside.ts";

/** A guarantee that must hold across crashes, how often it was checked, and its violations. */
export interface Invariant {
  readonly name: string;
  readonly checked: number;
  readonly broken: readonly string[];
}

class Check {
  checked = 0;
  readonly broken: string[] = [];
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  expect(holds: boolean, words: string): void {
    this.checked++;
    if (!holds) this.broken.push(words);
  }

  get result(): Invariant {
    return { name: this.#name, checked: this.checked, broken: this.broken };
  }
}

/** Compares what clients and the outside world observed with the final state of the server. */
export async function checkInvariants(load: ChaosLoad, outside: Outside): Promise<Invariant[]> {
  const ends = new Check("every accepted run has ended");
  const once = new Check("each run ends once, with the same result everywhere");
  const keys = new Check("a request repeated with its key returns the same run");
  const logs = new Check("every received event is in the log, in order; each call has one result");
  const effects = new Check("no effect with a key is applied twice");
  const calls = new Check("a once call runs once, unless a person approved a second try");
  const denied = new Check("a denied call is not run");
  const hooks = new Check("the webhook of each ended run arrives, with one id");
  for (const words of load.wrong) ends.expect(false, words);
  for (const run of load.runs.filter(({ tokens }) => tokens.size > 0)) {
    const { record, log } = await load.final(run);
    ends.expect(run.ends.size > 0, `run ${run.number} is ${record.status}`);
    keys.expect(run.tokens.size === 1, `run ${run.number} has the tokens ${[...run.tokens]}`);
    if (run.ends.size === 0) continue;
    once.expect(run.ends.size === 1 && run.ends.has(endOf(record)), `run ${run.number} ends ${[...run.ends]}`);
    once.expect(lastOf(log) === finalOf(run.number), `the log of run ${run.number} ends "${lastOf(log)}"`);
    checkLog(run, log, logs);
    checkHooks(run, String(record.status), outside, hooks);
    checkEffects(run, load, outside, { effects, calls, denied });
  }
  return [ends, once, keys, logs, effects, calls, denied, hooks].map((check) => check.result);
}

function lastOf(log: readonly StreamFrame[]): string {
  return String(log.findLast(({ data }) => data.role === "assistant")?.data.content);
}

function checkLog(run: ChaosRun, log: readonly StreamFrame[], logs: Check): void {
  const lines = log.map(({ data }) => JSON.stringify(data));
  const at = new Map(log.map(({ data }, index) => [data.id, index]));
  logs.expect(at.size === log.length, `run ${run.number} has an event twice`);
  for (const heard of run.heard) {
    let before = -1;
    for (const { data } of heard) {
      const place = at.get(data.id) ?? -1;
      const isSame = place > before && lines[place] === JSON.stringify(data);
      logs.expect(
        isSame,
        `run ${run.number}: event ${data.seq} was received and is missing from the log, or at another position`,
      );
      before = place;
    }
  }
  const asked = log.flatMap(({ data }) => (data.tool_calls as { id: string }[] | undefined) ?? []).map(({ id }) => id);
  const results = log.filter(({ data }) => data.kind === "tool_result").map(({ data }) => String(data.tool_call_id));
  logs.expect(
    asked.length === script.length && asked.toSorted().join() === results.toSorted().join(),
    `run ${run.number} has the calls ${asked} and the results ${results}`,
  );
}

function checkHooks(run: ChaosRun, status: string, outside: Outside, hooks: Check): void {
  const [token = ""] = run.tokens;
  const own = outside.hooks.filter(({ body }) => body.includes(token));
  const ids = new Set(own.map(({ id }) => id));
  const bodies = new Set(own.map(({ body }) => body));
  const type = own[0] === undefined ? "" : (JSON.parse(own[0].body) as { type: string }).type;
  hooks.expect(ids.size === 1 && bodies.size === 1, `the webhooks of run ${run.number} have ${ids.size} ids`);
  hooks.expect(type === `run.${status}`, `run ${run.number} is ${status}, and its webhook says "${type}"`);
}

function checkEffects(
  { number, tokens }: ChaosRun,
  { decided }: ChaosLoad,
  outside: Outside,
  { effects, calls, denied }: Readonly<Record<"effects" | "calls" | "denied", Check>>,
): void {
  const own = outside.effects.filter(({ run }) => run === number);
  const [token = ""] = tokens;
  for (const tool of script) {
    const made = own.filter((effect) => effect.tool === tool);
    const keys = new Set(made.map(({ key }) => key));
    const callId = `run-${number}-${tool}`;
    // A receiver applies each key once, so one call must never use two keys.
    if (made.length > 0)
      effects.expect(keys.size === 1 && keys.has(callDigest(token, callId)), `${callId} has the keys ${[...keys]}`);
    const asked = [...decided.values()].filter(({ call }) => call === callId);
    const again = asked.filter(({ rule, decisions }) => rule === "outcome-unknown" && decisions.has("approved"));
    const first = asked.filter(({ rule }) => rule !== "outcome-unknown");
    if (tool === "chaos_note") calls.expect(made.length <= 1 + again.length, `${callId} was made ${made.length} times`);
    if (first.length > 0 && first.every(({ decisions }) => !decisions.has("approved")))
      denied.expect(made.length === 0, `${callId} was denied, and made ${made.length} times`);
  }
}
