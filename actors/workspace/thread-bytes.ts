import { breathe, type Env } from "../../bus/env.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import { setUsedOps, threadBytesByTenant } from "../../storage/tables/thread-quota.ts";
import { type Directory, type EntryName, openRoot } from "../tools/workspace/directory.ts";
import { passBy } from "../tools/workspace/walk.ts";
import { encodeName, scopesName } from "../tools/workspace/workspace-path.ts";

/** Names read between two yields to the event loop. */
const namesPerTurn = 200;

/**
 * Sums the bytes of threads and workspaces per tenant and stores the sums, which SVC_TENANT_THREAD_BYTES limits. The workspace
 * root itself belongs to the operator and counts for no tenant.
 */
async function sumThreadBytes(store: Store, workspaceRoot: string | null, env: Env): Promise<void> {
  const top = workspaceRoot === null ? null : await openRoot(workspaceRoot).catch(() => null);
  const count = { names: 0 };
  try {
    for (const [tenantId, threads] of await threadBytesByTenant(store.system)) {
      const workspaces = top === null ? 0 : await bytesUnder(top, [scopesName, encodeName(tenantId)], count, env);
      const tenant = store.tenant(tenantId);
      await tenant.write(setUsedOps(tenant, { threads, workspaces }));
    }
  } finally {
    await top?.close();
  }
}

/** Returns the bytes of all files under a path; 0 if it does not exist. */
async function bytesUnder(directory: Directory, path: readonly EntryName[], count: Count, env: Env): Promise<number> {
  const [name, ...rest] = path;
  if (name === undefined) return bytesIn(directory, count, env);
  const next = await directory.directory(name, "").catch(passBy);
  if (next === null) return 0;
  try {
    return await bytesUnder(next, rest, count, env);
  } finally {
    await next.close();
  }
}

async function bytesIn(directory: Directory, count: Count, env: Env): Promise<number> {
  let bytes = 0;
  const below: EntryName[] = [];
  try {
    await directory.each(async (name) => {
      if (++count.names % namesPerTurn === 0) await breathe(env);
      const stats = await directory.look(name).catch(passBy);
      if (stats?.isDirectory()) below.push(name);
      else if (stats?.isFile()) bytes += Number(stats.size);
    });
  } catch (error) {
    passBy(error);
  }
  for (const name of below) bytes += await bytesUnder(directory, [name], count, env);
  return bytes;
}

/** Number of names read so far. */
interface Count {
  names: number;
}

const sumMs = 60_000;
/** Without a limit there is nothing to sum. */
const offMs = 3_600_000;

/** Sums the bytes of tenants that have a limit. */
export const threadBytesTask: RepeatedTask<{
  readonly settings: Pick<Settings, "tenantThreadBytes" | "workspaceRoot">;
  readonly store: Store;
  readonly env: Env;
}> = {
  name: "thread_bytes",
  of: "scheduler",
  async run({ settings: { tenantThreadBytes, workspaceRoot }, store, env }) {
    if (tenantThreadBytes === 0) return offMs;
    await sumThreadBytes(store, workspaceRoot, env);
    return sumMs;
  },
};
