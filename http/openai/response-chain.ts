import { threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { responseThread } from "../../bus/frames/response-object.ts";
import type { AskedResponse } from "../../bus/protocol/run.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { eventId } from "../../storage/tables/events.ts";
import { newestRun, type RunRow } from "../../storage/tables/runs.ts";
import type { HttpContext } from "../context.ts";
import type { Reply } from "../exchange/reply.ts";
import type { TurnFields } from "../streams/turns.ts";
import { findResponse } from "./stored-response.ts";

// A response that names a previous one continues its conversation if it is the first to do so. Every later one continues a copy of that
// conversation, up to the named response.

/** Max time for copying a long branch. */
const copyMs = 600_000;

/** The previous response of a request. */
export interface Followed {
  readonly suffix: string;
  readonly follows: NonNullable<AskedResponse["follows"]>;
  /** The id of its last event. */
  readonly lastEvent: string;
  /** True if the conversation continued after it already. */
  readonly isOlder: boolean;
}

/** Finds the response that a request names. Refuses with unknown_response, and with run_in_progress while that response is running. */
export async function follow(store: TenantStore, id: string): Promise<Followed> {
  const { thread, run, firstSeq } = await findResponse(store, id);
  if (run.last_seq === null) throw new SvcError("run_in_progress", { subject: run.run_id });
  const { suffix, uid, leaf_seq, thread_key } = thread;
  const lastEvent = eventId(uid, run.last_seq);
  const isOlder = leaf_seq < firstSeq || leaf_seq > run.last_seq;
  const failed = leaf_seq > run.last_seq ? await newestRun(store, thread_key) : undefined;
  // The client may repeat the question of a failed turn; the repetition continues after the tool results of that turn.
  if (failed?.status === "failed" && failed.last_seq === leaf_seq && previousOf(failed) === id) {
    const first_seq = Math.min(failed.first_seq ?? leaf_seq, leaf_seq);
    return { suffix, follows: { first_seq, last_seq: leaf_seq, repeats: true }, lastEvent, isOlder: false };
  }
  return { suffix, follows: { first_seq: firstSeq, last_seq: run.last_seq }, lastEvent, isOlder };
}

function previousOf({ asked }: RunRow): string | null {
  return asked.response?.previous_response_id ?? null;
}

/** Runs a turn after a response. If another turn continued the conversation already, runs it in a copy. */
export async function goOn(
  before: Followed,
  fields: TurnFields,
  run: (fields: TurnFields) => Promise<Reply>,
  tenantId: string,
  context: HttpContext,
): Promise<Reply> {
  if (!before.isOlder) {
    try {
      return await run(fields);
    } catch (error) {
      // A concurrent turn continued the conversation first.
      const code = error instanceof SvcError ? error.code : null;
      if (code !== "conflict" && code !== "run_in_progress") throw error;
    }
  }
  const suffix = responseThread(context.env.id());
  const copy = threadAddress(tenantId, suffix);
  const asked = { source: before.suffix, event_id: before.lastEvent, open_calls: true };
  await context.bus.ask(copy, "fork", asked, { deadlineMs: copyMs });
  const { response } = fields;
  try {
    return await run({ ...fields, thread_suffix: suffix, response: response && { ...response, follows: null } });
  } catch (error) {
    // No client knows the copy's id, so erase it.
    await context.bus.ask(copy, "erase", {}).catch(() => {});
    throw error;
  }
}
