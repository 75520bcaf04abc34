import { SvcError } from "../../bus/errors.ts";
import type { EndLease, TakeLease, TakenLease } from "../../bus/protocol/lease.ts";
import { requestMs, type TenantStore, type WriteOp } from "../../storage/store/store.ts";
import {
  endLeaseOp,
  hashToken,
  hintOf,
  isHoldOf,
  type LeaseRow,
  liveLeases,
  renewLeaseOps,
  takeLeaseOps,
} from "../../storage/tables/thread-leases.ts";
import { insertThreadOp } from "../../storage/tables/threads.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { dropState, newThreadRow } from "./open.ts";
import type { ThreadState } from "./thread-state.ts";

// Leases of a thread: one client drives it, others watch. A lease coordinates clients and grants no rights. Changes are guarded
// batches, because another process may change leases too.

/** Max attempts of a change that conflicts. */
const attemptsMax = 5;

/**
 * Takes a lease, or renews the one with the given token, whatever its mode. Creates the row of a missing thread; lists omit it
 * until it has a message.
 */
export async function takeLease(
  state: ThreadState,
  asked: TakeLease,
  context: ActorContext<ThreadDeps>,
): Promise<TakenLease> {
  const thread_key = await existingKey(state, context);
  const { mode, holder_id, ttlMs } = asked;
  return changed(state.store, thread_key, (holds) => {
    const own = holdOf(holds, asked.token);
    const driver = holds.find((hold) => hold.mode === "exclusive");
    if (mode === "exclusive" && driver !== undefined && driver !== own) throw new SvcError("lease_held");
    const token =
      own === undefined || asked.token === null
        ? Buffer.from(context.env.id(), "hex").toString("base64url")
        : asked.token;
    const names = { token_hash: hashToken(token), token_hint: hintOf(token) };
    const hold = { thread_key, ...names, mode, holder_id, lastsMs: ttlMs };
    const ops = own === undefined ? takeLeaseOps(state.store, hold) : renewLeaseOps(state.store, hold);
    return { ops, result: { token, renewed: own !== undefined } };
  });
}

/** Ends the lease with the given token. No other client gets it automatically. */
export async function endLease(
  { head, store }: ThreadState,
  { token, holder_id }: EndLease,
): Promise<{ released: boolean }> {
  if (head === null) return { released: false };
  return changed<{ released: boolean }>(store, head.thread_key, (holds) => {
    if (holds.length === 0) return { ops: [], result: { released: false } };
    if (token === null) throw new SvcError("token_required");
    const own = holdOf(holds, token);
    if (own === undefined) {
      // An expired lease needs no end, and the lease of another client stays.
      if (holds.some(({ mode }) => mode === "exclusive")) throw new SvcError("token_mismatch");
      return { ops: [], result: { released: false } };
    }
    if (holder_id !== null && holder_id !== own.holder_id) throw new SvcError("not_holder");
    return { ops: [endLeaseOp(store, own)], result: { released: true } };
  });
}

/** Decides by the current leases and writes the result; retries after a conflict. Refuses with lease_contended. */
async function changed<T>(
  store: TenantStore,
  threadKey: number,
  decide: (holds: readonly LeaseRow[]) => { readonly ops: readonly WriteOp[]; readonly result: T },
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const { ops, result } = decide(await liveLeases(store, threadKey));
    if (ops.length === 0) return result;
    try {
      await store.write(ops, requestMs);
      return result;
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "conflict") throw error;
      if (attempt === attemptsMax) throw new SvcError("lease_contended");
    }
  }
}

function holdOf(holds: readonly LeaseRow[], token: string | null): LeaseRow | undefined {
  if (token === null) return undefined;
  const hash = hashToken(token);
  return holds.find((hold) => isHoldOf(hold, hash));
}

/** Returns the thread's number; creates the thread if it is missing. */
async function existingKey(state: ThreadState, context: ActorContext<ThreadDeps>): Promise<number> {
  if (state.head !== null) return state.head.thread_key;
  // The run that is about to begin creates it.
  await state.opening?.over();
  if (state.replaced) throw new SvcError("actor_lost");
  const { head, store } = state;
  if (head !== null) return (head as NonNullable<ThreadState["head"]>).thread_key;
  const row = await newThreadRow(state, context.env, context.deps);
  try {
    await store.write([insertThreadOp(store, row)], requestMs);
  } catch (error) {
    // The outcome is unknown: this or another process may have stored it.
    dropState(state, context);
    throw error;
  }
  state.head = row;
  return row.thread_key;
}
