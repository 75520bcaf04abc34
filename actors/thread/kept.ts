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
import { publishEvents } from "./event-log-writer.ts";
import { appendAll, withKept } from "./log-state.ts";
import { dropState, newThreadRow } from "./open.ts";
import type { ThreadState } from "./thread-state.ts";

// Settings for later runs that a client changes: thinking level, output style, permission mode. A live run keeps the settings
// with which it began.

type Context = ActorContext<ThreadDeps>;

/** Resolves when no run is about to begin or being closed. */
export async function untouched(state: ThreadState): Promise<void> {
  await state.closing;
  await state.opening?.over();
  // The opening run failed and replaced the state.
  if (state.replaced) throw new SvcError("actor_lost");
}

/**
 * Stores a setting for later runs. `entry` is appended to the log too, unless a run has the log. Creates the row of a missing
 * thread; lists omit it until it has a message.
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
      // A suspended run may be resumed now; it waits for this write.
      state.noting = writeAlone(state, withKept(head, kept), entry, context);
      await state.noting;
    }
  } catch (error) {
    // The outcome is unknown, so drop the state and reload it. If a live run's writer failed, the run and this state are lost
    // with it.
    if (state.live === null) dropState(state, context, error);
    throw error;
  } finally {
    state.noting = null;
  }
}

/**
 * Returns the agent of the named manifest, else of the thread's last one. Null if there is none, unless `needed`. Refuses with
 * the errors of the manifest, and if the caller is not admitted.
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

/** Writes while no run is live. */
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
