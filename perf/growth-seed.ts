import { mkdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { systemEnv } from "../bus/env.ts";
import type { Store, WriteOp } from "../storage/store/store.ts";
import { growthScenario, perfTenant } from "./scenarios.ts";

const batchThreads = 100;
const batchRows = 500;
const batchesAtOnce = 8;
const vocabulary = 5_000;
const windowMs = 30 * 86_400_000;

/** Fills the SQLite database for the server of `launcher` with that server's own code: two messages per thread, a month of usage. */
export function seedGrowth(launcher: string, dataDir: string): Promise<void> {
  return withSeedStore(launcher, dataDir, async (store, tables) => {
    await seedThreads(store, tables);
    await seedUsage(store, tables);
    while (!(await tables.indexEvents(store, 200, systemEnv())));
  });
}

/** Creates the SQLite database for the server of `launcher` with that server's own code, and lets `seed` fill it. */
export async function withSeedStore(
  launcher: string,
  dataDir: string,
  seed: (store: Store, tables: SeedTables) => Promise<void>,
): Promise<void> {
  mkdirSync(dataDir, { recursive: true });
  const load = (path: string) => import(new URL(path, pathToFileURL(launcher)).href);
  const { migrate }: typeof import("../storage/migrate.ts") = await load("./storage/migrate.ts");
  const { startStoreThread }: typeof import("../storage/start.ts") = await load("./storage/start.ts");
  const { openStore }: typeof import("../storage/client.ts") = await load("./storage/client.ts");
  const tables = {
    ...((await load("./storage/tables/search.ts")) as typeof import("../storage/tables/search.ts")),
    ...((await load("./storage/tables/threads.ts")) as typeof import("../storage/tables/threads.ts")),
    ...((await load("./storage/tables/events.ts")) as typeof import("../storage/tables/events.ts")),
    ...((await load("./storage/tables/usage.ts")) as typeof import("../storage/tables/usage.ts")),
  };
  const config = { engine: "sqlite", path: `${dataDir}/svc.db` } as const;
  await migrate(config, { target: "head", downgrade: false });
  const thread = startStoreThread(config);
  const store = openStore(systemEnv(), config, thread.attach());
  try {
    await thread.ready;
    await seed(store, tables);
  } finally {
    store.close();
    await thread.close();
  }
}

/** The table functions that seeds use. */
export type SeedTables = Tables & Pick<typeof import("../storage/tables/search.ts"), "indexEvents">;

type Tables = Pick<typeof import("../storage/tables/threads.ts"), "insertThreadOp" | "reserveThreadKeys"> &
  Pick<typeof import("../storage/tables/events.ts"), "appendOp"> &
  Pick<typeof import("../storage/tables/usage.ts"), "insertUsageOp">;

async function seedThreads(store: Store, { appendOp, insertThreadOp, reserveThreadKeys }: Tables): Promise<void> {
  const tenant = store.tenant(perfTenant);
  const { threads, rareWord, rareEvery } = growthScenario;
  const ts = Date.now();
  const write = batches((ops) => tenant.write(ops));
  for (let first = 0; first < threads; first += batchThreads) {
    const key = await reserveThreadKeys(store.system, batchThreads);
    const ops: WriteOp[] = [];
    for (let n = first; n < first + batchThreads; n++) {
      const thread_key = key + n - first;
      const none = { manifest: null, model_id: null, session_name: null, preview: null, parent_session_id: null };
      const times = { created_at: ts, updated_at: ts };
      const marks = { next_seq: 2, leaf_seq: 1, bytes: 0, revision: 0, epoch: 0, meta: {} };
      ops.push(
        insertThreadOp(tenant, {
          thread_key,
          suffix: `g${n}`,
          uid: `${n}`.padStart(20, "0"),
          ...times,
          ...marks,
          ...none,
        }),
      );
      const asked = n % rareEvery === 0 ? `${words(n, 12)} ${rareWord}` : words(n, 12);
      for (const [seq, content] of [asked, words(n + 1, 25)].entries()) {
        const role = seq === 0 ? "user" : "assistant";
        ops.push(
          appendOp(tenant, thread_key, { seq, parent_seq: seq - 1, ts, kind: "message", role, content, extra: null }),
        );
      }
    }
    await write(ops);
  }
  await write([]);
}

async function seedUsage(store: Store, { insertUsageOp }: Tables): Promise<void> {
  const tenant = store.tenant(perfTenant);
  const { usageRows, threads } = growthScenario;
  const now = Date.now();
  const write = batches((ops) => tenant.write(ops));
  for (let first = 0; first < usageRows; first += batchRows) {
    const rows = Array.from({ length: batchRows }, (_, i) => first + i);
    const ops = rows.map((n) =>
      insertUsageOp(tenant, {
        id: `g${String(n).padStart(8, "0")}`,
        ts: now - Math.floor(((usageRows - n) / usageRows) * windowMs),
        manifest_id: `m${n % 10}`,
        model_id: `r${n % 3}`,
        wire_model_id: "w",
        kind: "tokens",
        tokens_input: 100,
        tokens_output: 64,
        cache_creation: 0,
        cache_read: 0,
        cost_usd: 0.001,
        thread_id: `${perfTenant}:g${n % threads}`,
        meta_json: "{}",
      }),
    );
    await write(ops);
  }
  await write([]);
}

/** Returns a function that writes several batches concurrently; an empty batch waits for all of them. */
export function batches(
  write: (ops: readonly WriteOp[]) => Promise<unknown>,
): (ops: readonly WriteOp[]) => Promise<void> {
  const under: Promise<unknown>[] = [];
  return async (ops) => {
    if (ops.length > 0) under.push(write(ops));
    if (ops.length === 0 || under.length >= batchesAtOnce) await Promise.all(under.splice(0));
  };
}

/** Pseudo-random words with a skewed distribution: a few are frequent, most are rare. The same seed gives the same words. */
function words(seed: number, count: number): string {
  const found: string[] = [];
  for (let i = 0, at = seed * 7919 + 1; i < count; i++) {
    at = (at * 1_103_515_245 + 12_345) % 2 ** 31;
    found.push(`word${Math.floor((at / 2 ** 31) ** 3 * vocabulary).toString(36)}`);
  }
  return found.join(" ");
}
