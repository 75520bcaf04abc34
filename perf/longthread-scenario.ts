import { setTimeout as sleep } from "node:timers/promises";
import type { LogEvent } from "../storage/tables/events.ts";
import { batches, withSeedStore } from "./growth-seed.ts";
import type { Lab, Target } from "./lab.ts";
import type { GrowthRow } from "./results.ts";
import { longThreadScenario, perfTenant } from "./scenarios.ts";

const healthPauseMs = 2;
const batchEvents = 500;
/** Events after the compaction of a long thread. */
const keptEvents = 20;
const { name, strategies, lengths, threads, turns, model } = longThreadScenario;

type Strategy = (typeof strategies)[number];

/** Measures turns, appended entries and history pages on short and on long threads. Their times must not depend on the length. */
export async function runLongThreadScenario(lab: Lab): Promise<GrowthRow[]> {
  const targets = await lab.startTargets(["svc"], name, { prepare: (dataDir) => seed(lab.options.svc, dataDir) });
  try {
    const [svc] = targets.list;
    if (svc === undefined) return [];
    const rows: GrowthRow[] = [];
    for (const strategy of strategies) {
      await putManifest(svc, strategy);
      // Warms up, so that code is compiled before it is measured.
      for (let n = 0; n < 40; n++) await takeTurn(svc, strategy, `warm-${n}`);
      for (const events of lengths) rows.push(...(await measureThreads(svc, strategy, events)));
    }
    for (const { what, firstMs, p50Ms, stallMs } of rows)
      lab.note(
        `longthread: ${what}: ${firstMs.toFixed(1)} ms first, ${p50Ms.toFixed(1)} ms p50, longest stall ${stallMs.toFixed(1)} ms`,
      );
    return rows;
  } finally {
    await targets.stop();
  }
}

async function measureThreads(svc: Target, strategy: Strategy, events: number): Promise<GrowthRow[]> {
  const ids = Array.from({ length: threads }, (_, n) => suffixOf(strategy, events, n));
  const behind = `behind ${events} events`;
  const rows = [await measure(svc, `${strategy}, a turn ${behind}`, ids, (id) => takeTurn(svc, strategy, id))];
  // The other requests do not depend on the strategy.
  if (strategy !== strategies[0]) return rows;
  const entry = { content: "An entry.", in_context: false };
  const append = (id: string) => post(svc, "/chat/sessions/custom", { thread_id: id, ...entry });
  rows.push(await measure(svc, `an entry ${behind}`, ids, append));
  rows.push(
    await measure(svc, `50 events of history ${behind}`, ids, (id) => get(svc, `/chat/history/${id}?limit=50`)),
  );
  rows.push(await measure(svc, `a snapshot ${behind}`, ids, (id) => get(svc, `/chat/sessions/${id}`)));
  return rows;
}

/** Measures requests to threads. The first of each thread is reported separately, because its thread is not in memory yet. */
async function measure(
  svc: Target,
  what: string,
  ids: readonly string[],
  ask: (id: string) => Promise<void>,
): Promise<GrowthRow> {
  const [first, later]: [number[], number[]] = [[], []];
  let stallMs = 0;
  let done = false;
  const watch = async () => {
    while (!done) {
      stallMs = Math.max(stallMs, await timed(() => get(svc, "/health")));
      await sleep(healthPauseMs);
    }
  };
  const watching = watch();
  try {
    for (const id of ids) first.push(await timed(() => ask(id)));
    for (let turn = 0; turn < turns; turn++) for (const id of ids) later.push(await timed(() => ask(id)));
  } finally {
    done = true;
    await watching;
  }
  return { what, firstMs: at(first, 0.5), p50Ms: at(later, 0.5), p99Ms: at(later, 0.99), stallMs };
}

function at(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

function takeTurn(svc: Target, strategy: Strategy, thread_id: string): Promise<void> {
  const messages = [{ role: "user", content: "And now?" }];
  return post(svc, "/chat", { manifest: manifestOf(strategy), thread_id, messages });
}

async function post(svc: Target, path: string, body: object): Promise<void> {
  const headers = { ...svc.headers, "content-type": "application/json" };
  await answered(path, fetch(urlOf(svc, path), { method: "POST", headers, body: JSON.stringify(body) }));
}

async function get(svc: Target, path: string): Promise<void> {
  await answered(path, fetch(urlOf(svc, path), { headers: svc.headers }));
}

async function answered(path: string, asked: Promise<Response>): Promise<void> {
  const response = await asked;
  const body = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status} ${body.slice(0, 200)}`);
}

function urlOf(svc: Target, path: string): string {
  return `http://127.0.0.1:${svc.port}${path}`;
}

async function putManifest(svc: Target, strategy: Strategy): Promise<void> {
  const path = `/manifests/${manifestOf(strategy)}`;
  const spec = { model: { id: model }, session: { strategy } };
  const body = JSON.stringify({ manifest: { metadata: { name: manifestOf(strategy) }, spec } });
  const headers = { ...svc.headers, "content-type": "application/json" };
  await answered(path, fetch(urlOf(svc, path), { method: "PUT", headers, body }));
}

function manifestOf(strategy: Strategy): string {
  return `long-${strategy.replace(/\W/g, "-").replace("_", "-")}`;
}

function suffixOf(strategy: Strategy, events: number, n: number): string {
  return `${manifestOf(strategy)}-${events}-${n}`;
}

/** Creates threads of user messages and replies. Those for the compacting strategy contain an old compaction. */
function seed(launcher: string, dataDir: string): Promise<void> {
  return withSeedStore(launcher, dataDir, async (store, { appendOp, insertThreadOp, reserveThreadKeys }) => {
    const tenant = store.tenant(perfTenant);
    const ts = Date.now();
    const write = batches((ops) => tenant.write(ops));
    const none = { manifest: null, model_id: null, session_name: null, preview: null, parent_session_id: null };
    let made = 0;
    for (const strategy of strategies)
      for (const length of lengths)
        for (let n = 0; n < threads; n++) {
          const thread_key = await reserveThreadKeys(store.system, 1);
          const marks = { next_seq: length, leaf_seq: length - 1, bytes: 0, revision: 0, epoch: 0, meta: {} };
          const names = { suffix: suffixOf(strategy, length, n), uid: `${made++}`.padStart(20, "0") };
          const row = { thread_key, ...names, created_at: ts, updated_at: ts, ...marks, ...none };
          await tenant.write([insertThreadOp(tenant, row)]);
          const compactedAt = strategy === "compacting" && length > 2 * keptEvents ? length - keptEvents : null;
          for (let from = 0; from < length; from += batchEvents) {
            const count = Math.min(batchEvents, length - from);
            const events = Array.from({ length: count }, (_, i) => eventAt(from + i, ts, compactedAt));
            await write(events.map((event) => appendOp(tenant, thread_key, event)));
          }
        }
    await write([]);
  });
}

function eventAt(seq: number, ts: number, compactedAt: number | null): LogEvent {
  const place = { seq, parent_seq: seq - 1, ts };
  if (seq === compactedAt) {
    const metadata = { type: "compaction", reason: "threshold", first_kept_seq: seq - keptEvents };
    return { ...place, kind: "compaction", role: "system", content: "They have talked.", extra: { metadata } };
  }
  const role = seq % 2 === 0 ? "user" : "assistant";
  return { ...place, kind: "message", role, content: `Message ${seq} of a long talk about nothing.`, extra: null };
}
