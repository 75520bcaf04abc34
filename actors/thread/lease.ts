import { isReservedSuffix } from "../../bus/address.ts";
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

// Holds of a conversation: one client drives it, others watch. It is a courtesy between clients and grants nothing. A hold is looked at
// and changed in a guarded batch, for another process may change it too.

/** How often a change is tried anew after somebody else was first. */
const attemptsMax = 5;

/**
 * Takes a hold, or renews the one whose token is shown, whatever it was for. A conversation that is not there gets a row, and is in no
 * list before something is said in it.
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

/** Ends the hold whose token is shown. Nobody takes its place. */
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
      // A hold that was over needs no end; what another has is not ended.
      if (holds.some(({ mode }) => mode === "exclusive")) throw new SvcError("token_mismatch");
      return { ops: [], result: { released: false } };
    }
    if (holder_id !== null && holder_id !== own.holder_id) throw new SvcError("not_holder");
    return { ops: [endLeaseOp(store, own)], result: { released: true } };
  });
}

/** Decides by the holds as they are and writes what it comes to; again when they have changed meanwhile. Refuses with lease_contended. */
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

/** The number of the conversation, which is made if it is not there. */
async function existingKey(state: ThreadState, context: ActorContext<ThreadDeps>): Promise<number> {
  if (state.head !== null) return state.head.thread_key;
  // The turn that is about to begin makes it.
  await state.opening?.over();
  if (state.replaced) throw new SvcError("actor_lost");
  const { head, store, suffix } = state;
  if (head !== null) return (head as NonNullable<ThreadState["head"]>).thread_key;
  if (isReservedSuffix(suffix)) throw new SvcError("invalid_thread_id");
  const row = await newThreadRow(state, context.env, context.deps);
  try {
    await store.write([insertThreadOp(store, row)], requestMs);
  } catch (error) {
    // It may be stored all the same, by this or another process.
    dropState(state, context);
    throw error;
  }
  state.head = row;
  return row.thread_key;
}
