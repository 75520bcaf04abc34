import type { Env } from "../../../bus/env.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { checkoutOf, useCheckoutOp } from "../../../storage/tables/repo-checkouts.ts";
import type { ThreadCheckout, WorkspaceConfig } from "../tool.ts";

/** Uses of a checkout are recorded at most this often. */
const useMs = 3_600_000;

/**
 * Returns the function that finds the checkout of a thread. It reads the row until the checkout is ready or there is none: a checkout is
 * neither opened nor removed while a run of its thread works.
 */
export function threadCheckout(
  store: TenantStore,
  threadSuffix: string | null,
  env: Pick<Env, "now">,
): WorkspaceConfig["checkout"] {
  let found: Promise<ThreadCheckout | null> | null = null;
  return async () => {
    if (threadSuffix === null) return null;
    found ??= lookUp(store, threadSuffix, env);
    const reading = found;
    const isFinal = await reading.then(
      (checkout) => checkout === null || checkout.isReady,
      () => false,
    );
    if (!isFinal && found === reading) found = null;
    return reading;
  };
}

async function lookUp(store: TenantStore, thread: string, env: Pick<Env, "now">): Promise<ThreadCheckout | null> {
  const row = await checkoutOf(store, thread);
  if (row === undefined) return null;
  if (row.used_at < env.now() - useMs) await store.write([useCheckoutOp(store, thread, env.now(), useMs)]);
  return { isReady: row.state === "ready" || row.state === "working" };
}
