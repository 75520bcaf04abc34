import type { Logger } from "pino";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { RepeatedTask, ScheduledTask } from "../bus/task-declaration.ts";
import { sealNext } from "../governance/audit-chain.ts";
import { auditKeysOf } from "../governance/audit-keys.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Store } from "../storage/store/store.ts";
import { newestHeads, unsealedTenants } from "../storage/tables/audit-seals.ts";

/** Tenants of one page. */
const pageTenants = 200;
/** Max time for the last seals of a process that stops. */
const endMs = 2_000;

/** Tells the sealers of all tenants with unsealed audit rows. */
export async function tellSealers({ store, bus }: { readonly store: Store; readonly bus: Bus }): Promise<void> {
  for (let after = ""; ; ) {
    const page = await unsealedTenants(store.system, after, pageTenants);
    for (const key of page) bus.tell({ kind: "audit", key }, "seal", {});
    const last = page.at(-1);
    if (last === undefined || page.length < pageTenants) return;
    after = last;
  }
}

/** Writes the heads of the chains to the log, so that a copy exists outside of the database. */
export async function logHeads({
  store,
  log,
}: {
  readonly store: Store;
  readonly log: Pick<Logger, "info">;
}): Promise<void> {
  for (const { tenant_id, seq, hash } of await newestHeads(store.system, pageTenants))
    log.info({ tenant_id, seq, hash }, "the head of the audit chain");
}

/** Seals the last audit rows of this process, for at most two seconds. The next process seals the others. */
export async function sealAtEnd(store: Store, settings: Pick<Settings, "auditKey">, env: Env): Promise<void> {
  const until = env.monotonic() + endMs;
  const keys = auditKeysOf(settings);
  try {
    for (const tenantId of await unsealedTenants(store.system, "", pageTenants))
      while (env.monotonic() < until && (await sealNext(store.tenant(tenantId), keys, env.now())) > 0);
  } catch {
    // Another process has sealed them, or the store is gone.
  }
}

/** Interval at which new audit rows are sealed. */
const sealMs = 5_000;

/** Seals new audit rows. */
export const sealTask: RepeatedTask<Parameters<typeof tellSealers>[0]> = {
  name: "audit_seal",
  of: "scheduler",
  async run(deps) {
    await tellSealers(deps);
    return sealMs;
  },
};

/** Logs the heads of the audit chains. */
export const headsTask: ScheduledTask<Parameters<typeof logHeads>[0]> = {
  name: "audit_heads",
  of: "scheduler",
  schedule: "0 * * * *",
  run: logHeads,
};
