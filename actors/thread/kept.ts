import { isReservedSuffix } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { admit } from "../../governance/auth/inbound.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { requestMs, type WriteOp } from "../../storage/store/store.ts";
import { appendOp, eventsMax } from "../../storage/tables/events.ts";
import { growthOp, insertThreadOp, metaOp, type ThreadRow } from "../../storage/tables/threads.ts";
import type { LogEntry } from "../log/entry.ts";
import type { KeptByThread } from "../log/messages.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { appendAll, withKept } from "./log-state.ts";
import { publishEvents } from "./log-writer.ts";
import { dropState, newThreadRow } from "./open.ts";
import type { ThreadState } from "./thread-state.ts";

// What a client says of the runs to come: how they think, how they answer, what they may do. It may come while a run is live, which
// goes on with what it has begun with.

type Context = ActorContext<ThreadDeps>;

/** Resolves when no run is about to begin and none is being closed. Refuses a new conversation of a reserved suffix. */
export async function untouched(state: ThreadState): Promise<void> {
  await state.closing;
  await state.opening?.over();
  // What was about to begin did not, and with it went this state.
  if (state.replaced) throw new SvcError("actor_lost");
  if (state.head === null && isReservedSuffix(state.suffix)) throw new SvcError("invalid_thread_id");
}

/**
 * Keeps something for the runs to come. The log says so too where there is an `entry`, unless a run has it: then the row alone does. A
 * conversation that is not there gets a row, and is in no list before something is said in it.
 */
export async function keep(
  state: ThreadState,
  kept: KeptByThread,
  entry: LogEntry | null,
  context: Context,
): Promise<void> {
  const { head, live } = state;
  try {
    if (head === null) state.head = await create(state, kept, context);
    else if (live !== null) await live.append([], [], kept);
    else {
      // A run that was put aside may be taken up meanwhile: it waits until this is written.
      state.noting = writeAlone(state, withKept(head, kept), entry, context);
      await state.noting;
    }
  } catch (error) {
    // It may be stored all the same: what is in memory is read again. A live run that could not write it is lost, and with it goes this
    // state.
    if (state.live === null) dropState(state, context);
    throw error;
  } finally {
    state.noting = null;
  }
}

/**
 * The agent that has a say: of the manifest that is named, else of the conversation's last. Null where there is none; one that is
 * `needed` is refused for. Refuses with what its manifest is refused with, and whom it does not admit.
 */
export async function agentOf(
  { head, tenantId, suffix }: ThreadState,
  { manifest, principal }: { readonly manifest: string | null; readonly principal: Principal },
  needed: boolean,
  { manifests }: ThreadDeps,
): Promise<CompiledAgent | null> {
  const name = manifest ?? head?.manifest ?? "";
  if (name.trim() === "") {
    if (needed) throw new SvcError("manifest_required");
    return null;
  }
  let agent: CompiledAgent;
  try {
    agent = await manifests.resolve(tenantId, name, suffix);
  } catch (error) {
    const isGone = error instanceof SvcError && ["unknown_manifest", "invalid_manifest"].includes(error.code);
    if (needed || !isGone) throw error;
    return null;
  }
  admit(principal, agent.inbound);
  return agent;
}

async function create(state: ThreadState, kept: KeptByThread, { env, deps }: Context): Promise<ThreadRow> {
  const row = withKept(await newThreadRow(state, env, deps), kept);
  await state.store.write([insertThreadOp(state.store, row)], requestMs);
  return row;
}

/** While no run is live. */
async function writeAlone(state: ThreadState, head: ThreadRow, entry: LogEntry | null, context: Context) {
  state.head = head;
  if (entry === null || state.suspended !== null || head.next_seq === 0)
    await state.store.write([metaOp(state.store, head)], requestMs);
  else await append(state, head, entry, context);
}

async function append(state: ThreadState, before: ThreadRow, entry: LogEntry, { env, bus }: Context) {
  const { store } = state;
  const { head, events } = appendAll(before, [entry], env.now());
  if (head.next_seq > eventsMax) throw new SvcError("storage_unavailable", { subject: "thread_full" });
  const ops: WriteOp[] = [metaOp(store, head), growthOp(store, before, head)];
  await store.write([...ops, ...events.map((event) => appendOp(store, head.thread_key, event, null))], requestMs);
  state.head = head;
  state.committedSeq = head.next_seq;
  state.committedLeaf = head.leaf_seq;
  state.recent?.push(...events);
  publishEvents(bus, state, events);
}
