import { join } from "node:path";
import { type RebuiltCall, rebuildCall } from "../../actors/run/replay/rebuilt-call.ts";
import { systemEnv } from "../../bus/env.ts";
import { FileStore } from "../../storage/files/file-store.ts";
import { openFsStore } from "../../storage/objects/fs.ts";
import { openReadOnly } from "../../storage/read-only.ts";
import type { Store } from "../../storage/store/store.ts";
import { type ModelCallRow, modelCall } from "../../storage/tables/model-calls.ts";
import { rowsIn } from "./rows-in.ts";
import { sqliteIn } from "./seed.ts";

// The recorded model calls, read from the database of a running server.

/** The calls of a thread's runs, in the order of the runs and of their ends. */
export function callsOf(dataDir: string, suffix: string, tenantId = "default"): Promise<ModelCallRow[]> {
  return selected(dataDir, tenantId, `t.suffix = '${suffix}'`);
}

/** The calls of all runs of an agent, in the same order; those without a thread first. */
export function callsOfAgent(dataDir: string, agent: string, tenantId = "default"): Promise<ModelCallRow[]> {
  return selected(dataDir, tenantId, `c.facts LIKE '%"agent":${JSON.stringify(agent)}%'`);
}

async function selected(dataDir: string, tenantId: string, where: string): Promise<ModelCallRow[]> {
  const keys = await rowsIn(
    sqliteIn(dataDir),
    `SELECT c.run_id, c.n FROM model_calls c JOIN runs r ON r.run_id = c.run_id
     LEFT JOIN threads t ON t.tenant_id = c.tenant_id AND t.thread_key = c.thread_key
     WHERE c.tenant_id = '${tenantId}' AND ${where} ORDER BY r.run_key, c.n`,
  );
  return reading(dataDir, (store) =>
    Promise.all(
      keys.map(
        async ({ run_id, n }) => (await modelCall(store.tenant(tenantId), String(run_id), Number(n))) as ModelCallRow,
      ),
    ),
  );
}

/** A request rebuilt from its record and the log alone. */
export function rebuilt(dataDir: string, call: ModelCallRow, tenantId = "default"): Promise<RebuiltCall> {
  const files = new FileStore(openFsStore(join(dataDir, "objects"), systemEnv()), systemEnv(), 0);
  return reading(dataDir, (store) => rebuildCall(store.tenant(tenantId), files, call));
}

async function reading<T>(dataDir: string, read: (store: Store) => Promise<T>): Promise<T> {
  const store = openReadOnly(sqliteIn(dataDir), systemEnv());
  try {
    return await read(store);
  } finally {
    store.close();
  }
}
