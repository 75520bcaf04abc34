import { isReservedSuffix } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PickedStyle, PickStyle } from "../../bus/protocol/thread.ts";
import { admit } from "../../governance/auth/inbound.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { requestMs } from "../../storage/store/store.ts";
import { insertThreadOp, metaOp, type ThreadRow } from "../../storage/tables/threads.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { dropState, newThreadRow } from "./open.ts";
import type { ThreadState } from "./thread-state.ts";

/**
 * Keeps how the agent is to answer from the next run on; a run that has begun keeps what it began with. A conversation that is not there
 * gets a row, and is in no list before something is said in it.
 */
export async function pickStyle(
  state: ThreadState,
  asked: PickStyle,
  context: ActorContext<ThreadDeps>,
): Promise<PickedStyle> {
  await untouched(state);
  if (state.head === null && isReservedSuffix(state.suffix)) throw new SvcError("invalid_thread_id");
  const style = declaredName(await agentOf(state, asked, context.deps), asked.style);
  await untouched(state);
  const { head } = state;
  if ((head?.meta.output_style ?? null) === style) return { style };
  const { output_style: _before, ...others } = head?.meta ?? {};
  const meta = style === null ? others : { ...others, output_style: style };
  try {
    if (head === null) state.head = await create(state, meta, context);
    else await write(state, { ...head, meta });
  } catch (error) {
    // It may be stored all the same. A live run that could not write it is lost, and with it goes this state.
    if (state.live === null) dropState(state, context);
    throw error;
  }
  // A run may have moved the head on meanwhile.
  if (state.head !== null) state.head = { ...state.head, meta };
  return { style };
}

/** Resolves when no run is about to begin and none is being closed. */
async function untouched(state: ThreadState): Promise<void> {
  await state.opening?.over();
  await state.closing;
  if (state.replaced) throw new SvcError("actor_lost");
}

/**
 * The agent that declares the style: of the manifest that is named, else of the conversation's last. No style at all needs none, so that
 * it can be taken away when the manifest is gone.
 */
async function agentOf(
  { head, tenantId, suffix }: ThreadState,
  { style, manifest, principal }: PickStyle,
  { manifests }: ThreadDeps,
): Promise<CompiledAgent | null> {
  const name = manifest ?? head?.manifest ?? "";
  const isNeeded = style !== null || manifest !== null;
  if (name.trim() === "") {
    if (isNeeded) throw new SvcError("manifest_required");
    return null;
  }
  let agent: CompiledAgent;
  try {
    agent = await manifests.resolve(tenantId, name, suffix);
  } catch (error) {
    const isGone = error instanceof SvcError && ["unknown_manifest", "invalid_manifest"].includes(error.code);
    if (isNeeded || !isGone) throw error;
    return null;
  }
  admit(principal, agent.inbound);
  return agent;
}

/** The style's name as the manifest writes it. */
function declaredName(agent: CompiledAgent | null, style: string | null): string | null {
  if (style === null) return null;
  const declared = agent?.outputStyles.get(style.toLowerCase());
  if (declared === undefined) throw new SvcError("unknown_style", { subject: style });
  return declared.name;
}

async function create(
  state: ThreadState,
  meta: ThreadRow["meta"],
  { env, deps }: ActorContext<ThreadDeps>,
): Promise<ThreadRow> {
  const row = { ...(await newThreadRow(state, env, deps)), meta };
  await state.store.write([insertThreadOp(state.store, row)], requestMs);
  return row;
}

/** While a run is live its writer keeps the order. */
async function write({ store, live }: ThreadState, row: ThreadRow): Promise<void> {
  if (live === null) await store.write([metaOp(store, row)], requestMs);
  else await live.append([], [metaOp(store, row)]);
}
