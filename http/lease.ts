import { SvcError } from "../bus/errors.ts";
import type { LeaseProof } from "../bus/protocol/lease.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { hashToken, type LeaseRow, leaseRefusal, liveLeases } from "../storage/tables/thread-leases.ts";
import { type ThreadRow, threadBySuffix } from "../storage/tables/threads.ts";
import type { HttpContext } from "./context.ts";
import type { RequestHead } from "./exchange/request-head.ts";
import type { RouteRequest } from "./route.ts";
import { threadFilter } from "./thread-id.ts";

// Leases for routes: checks that a request may drive a conversation, and reports the holder of the lease.

/**
 * Returns the lease proof to check for a request that drives a conversation; null for a request without a token, unless leases are
 * enforced.
 */
export function leaseProof(
  { headers }: Pick<RequestHead, "headers">,
  { leaseEnforce }: Pick<Settings, "leaseEnforce">,
): LeaseProof | null {
  const token = headers["x-svc-lease-token"];
  if (token !== undefined && token !== "") return { token_hash: hashToken(token) };
  return leaseEnforce === "strict" ? { token_hash: null } : null;
}

/** Refuses with invalid_thread_id, lease_held and lease_read_only. */
export async function admitDriver(
  { body, params, principal }: RouteRequest<unknown, unknown, unknown>,
  proof: LeaseProof,
  { store }: Pick<HttpContext, "store">,
): Promise<void> {
  const named = { ...(params as object), ...(body as object | undefined) } as { readonly thread_id: string };
  const suffix = threadFilter(named.thread_id, principal.tenant_id) ?? "";
  const refused = await leaseRefusal(store.tenant(principal.tenant_id), suffix, proof);
  if (refused !== null) throw new SvcError(refused);
}

/** Returns the lease fields of a conversation's snapshot. */
export async function heldThread(store: TenantStore, { thread_key }: Pick<ThreadRow, "thread_key">) {
  const { attached, locked } = statusOf(await liveLeases(store, thread_key));
  return { attached, locked };
}

/** Returns the lease holders of a conversation, in the form that all principals of the tenant may see. */
export async function leaseStatus(store: TenantStore, suffix: string) {
  const thread = await threadBySuffix(store, suffix);
  return statusOf(thread === undefined ? [] : await liveLeases(store, thread.thread_key));
}

function statusOf(holds: readonly LeaseRow[]) {
  const driver = holds.find(({ mode }) => mode === "exclusive");
  const observers = holds.filter((hold) => hold !== driver);
  return {
    locked: driver !== undefined,
    attached: holds.length > 0,
    holder_id: driver?.holder_id ?? null,
    mode: holds[0]?.mode ?? null,
    observers: observers.length,
    observer_holds: observers.map(({ holder_id, expires_at }) => ({ holder_id, expires_at })),
    // The hold that ends last comes first.
    expires_at: holds[0]?.expires_at ?? null,
    token_hint: driver?.token_hint ?? null,
  };
}
