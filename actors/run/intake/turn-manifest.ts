import { isReservedSuffix } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { manifestOf } from "../event-log/side-log.ts";

/**
 * The turn with its manifest. A continuation may leave it out, and a question beside a conversation does: then it is the conversation's
 * last. Refuses a new conversation of a reserved suffix, as threads that have such an id already keep it, and with unknown_thread.
 */
export function withManifest(turn: SubmitTurn, store: TenantStore): SubmitTurn | Promise<SubmitTurn> {
  const { thread_suffix: suffix, side_of } = turn;
  if (side_of !== undefined) return besideThread(turn, store, side_of);
  if (suffix === null || turn.parent) return turn;
  const isReserved = isReservedSuffix(suffix);
  const needsManifest = (turn.surface === "continue" || turn.surface === "compact") && turn.manifest === "";
  return isReserved || needsManifest ? ofThread(turn, store, suffix, isReserved, needsManifest) : turn;
}

async function besideThread(turn: SubmitTurn, store: TenantStore, suffix: string): Promise<SubmitTurn> {
  return { ...turn, manifest: await manifestOf(store, suffix) };
}

async function ofThread(
  turn: SubmitTurn,
  store: TenantStore,
  suffix: string,
  isReserved: boolean,
  needsManifest: boolean,
): Promise<SubmitTurn> {
  const row = await threadBySuffix(store, suffix);
  if (!row && isReserved) throw new SvcError("invalid_thread_id");
  return needsManifest ? { ...turn, manifest: row?.manifest ?? "" } : turn;
}
