import { createHash } from "node:crypto";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { SimDisk } from "../support/sim-disk.ts";
import { Sim } from "../support/sim-env.ts";
import type { Cleanup } from "../support/temp.ts";
import { conversation, Draw, type GoldenTurn, goldenEnv, manifests, slow } from "./script.ts";

// The golden corpus: 200 turns below HTTP, with all their output. The internals of the code may change; its output to clients,
// models, the log, audit and usage is recorded in a file, so that a review shows each change. Ids are numbered by their first
// appearance, so that an additional id changes nothing.

const conversations = 100;
/** The pause between two turns: longer than all work of a turn, audit rows included. */
const restMs = 5_000;
/** A fraction, as the model's pauses are whole milliseconds: so no two events coincide by chance. */
const writeMs = 0.3;

/** Plays all turns; returns the output of each as text. */
export async function playCorpus(atEnd: Cleanup): Promise<string[]> {
  const settings = processSettings(atEnd, manifests, goldenEnv);
  const disk = await SimDisk.open(atEnd);
  const played: string[] = [];
  for (let seed = 1; seed <= conversations; seed++) {
    const sim = new Sim(seed, { orderly: true });
    const env = sim.env();
    const pauses = new Draw(seed);
    let replies: GoldenTurn["replies"] = [];
    let asked = 0;
    const model = new ScriptedModel(
      env,
      () => replies[asked++] ?? { text: ["Out of script."] },
      () => 1 + pauses.int(6),
    );
    const store = disk.store(sim, env, () => writeMs);
    const process = new ActorProcess({ env, store, settings, model, tools: [slow], bootId: `boot-${seed}` });
    const seen = await seenRows(disk);
    const ids = new Ids();
    for (const [at, turn] of conversation(seed).entries()) {
      replies = turn.replies;
      asked = 0;
      const requests = model.requests.length;
      const lines = [`# turn ${seed}.${at + 1} ${turn.asked.manifest} ${turn.asked.surface}`];
      lines.push(...(await playTurn(sim, process, turn)));
      for (const request of model.texts.slice(requests)) lines.push(`model ${digested(request)}`);
      for (const row of await newRows(disk, seen)) lines.push(row);
      if (process.crashes.length > 0) throw process.crashes[0];
      played.push(`${ids.numbered(lines.join("\n"))}\n`);
    }
    process.close();
  }
  return played;
}

/** Replaces the tools of a request, which are equal for all requests of a manifest, by their digest. */
function digested(request: string): string {
  const tools = request.indexOf(' [{"type":"function"');
  if (tools < 0) return request;
  return `${request.slice(0, tools)} tools ${createHash("sha256").update(request.slice(tools)).digest("hex").slice(0, 12)}`;
}

/** The output of a turn: its acceptance, and all text of its channel. */
async function playTurn(
  sim: Sim,
  process: ActorProcess,
  { asked, abortAfterMs, again }: GoldenTurn,
): Promise<string[]> {
  const lines: string[] = [];
  const sent = process.submit(asked);
  const accepted = await sim.until(outcome(sent.accepted));
  lines.push(`accepted ${accepted}`);
  if (accepted.startsWith("{")) {
    if (abortAfterMs !== null && asked.thread_suffix !== null) {
      await sim.advance(abortAfterMs);
      lines.push(`abort ${JSON.stringify(await sim.until(process.abort(asked.thread_suffix)))}`);
    }
    if (accepted.includes("started")) await sim.until(sent.ended);
  }
  await sim.advance(restMs);
  lines.push(sent.text.trimEnd());
  if (again) lines.push(`again ${await sim.until(outcome(process.submit(asked).accepted))}`);
  return lines;
}

async function outcome(promise: Promise<object>): Promise<string> {
  try {
    return JSON.stringify(await promise);
  } catch (error) {
    return (error as Error).message;
  }
}

/** The recorded tables in order, each with its columns that are stable between runs. */
const tables: Readonly<Record<string, string>> = {
  threads: "suffix, uid, created_at, updated_at, next_seq, leaf_seq, revision, manifest, model_id, preview",
  events: "parent_seq, ts, kind, role, content, extra",
  audit: "ts, event_type, manifest_id, principal_subj, status, payload",
  usage:
    "ts, manifest_id, model_id, kind, tokens_input, tokens_output, cache_creation, cache_read, cost_usd, thread_id, meta_json",
  idempotency: "scope, fingerprint, state, run_id, answer, expires_at",
};

type Seen = Map<string, Set<string>>;

async function rowsOf(disk: SimDisk, table: string): Promise<string[]> {
  const rows = await disk.query(`SELECT ${tables[table]} FROM ${table} WHERE tenant_id = ?`, tenantId);
  return rows.map((row) => JSON.stringify(row));
}

async function seenRows(disk: SimDisk): Promise<Seen> {
  const seen: Seen = new Map();
  for (const table of Object.keys(tables)) seen.set(table, new Set(await rowsOf(disk, table)));
  return seen;
}

/** Rows that are new or changed since the last call. */
async function newRows(disk: SimDisk, seen: Seen): Promise<string[]> {
  const found: string[] = [];
  for (const table of Object.keys(tables)) {
    const known = seen.get(table) ?? new Set();
    const fresh = (await rowsOf(disk, table)).filter((row) => !known.has(row));
    for (const row of fresh) known.add(row);
    // Rows of one millisecond are in the order of their random ids.
    if (table === "audit" || table === "usage") fresh.sort(byTimeThenContent);
    found.push(...fresh.map((row) => `${table} ${row}`));
  }
  return found;
}

function byTimeThenContent(a: string, b: string): number {
  const [left, right] = [a, b].map((row) => row.replace(/[0-9a-f]{20,}/g, "")) as [string, string];
  return left < right ? -1 : 1;
}

/** Numbers ids in the order of their first appearance. */
class Ids {
  readonly #numbers = new Map<string, number>();

  numbered(text: string): string {
    return text.replace(/[0-9a-f]{20,32}/g, (id) => {
      const known = this.#numbers.get(id) ?? this.#numbers.size + 1;
      this.#numbers.set(id, known);
      return `<id ${known}>`;
    });
  }
}
