import { threadAddress } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import { responseThread } from "../bus/frames/response-object.ts";
import type { AskedResponse } from "../bus/protocol/run.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { eventId } from "../storage/tables/events.ts";
import { newestRun, type RunRow } from "../storage/tables/runs.ts";
import type { HttpContext } from "./context.ts";
import type { Reply } from "./exchange/reply.ts";
import { findResponse } from "./stored-response.ts";
import type { TurnFields } from "./turns.ts";

// A response goes on in the conversation of the one before it, if it is the first to do so. Every other goes on in a copy of that
// conversation, up to the response that it names.

/** How long a long branch may take to be copied. */
const copyMs = 600_000;

/** A response that another is to follow. */
export interface Followed {
  readonly suffix: string;
  readonly follows: NonNullable<AskedResponse["follows"]>;
  /** The id of its last event. */
  readonly lastEvent: string;
  /** Whether the conversation has gone on from it already. */
  readonly isOlder: boolean;
}

/** The response that a request names. Refuses with unknown_response, and with run_in_progress while it goes on. */
export async function follow(store: TenantStore, id: string): Promise<Followed> {
  const { thread, run, firstSeq } = await findResponse(store, id);
  if (run.last_seq === null) throw new SvcError("run_in_progress", { subject: run.run_id });
  const { suffix, uid, leaf_seq, thread_key } = thread;
  const lastEvent = eventId(uid, run.last_seq);
  const isOlder = leaf_seq < firstSeq || leaf_seq > run.last_seq;
  const failed = leaf_seq > run.last_seq ? await newestRun(store, thread_key) : undefined;
  // Its client may have sent the same question again, and that goes on with what tools have done since.
  if (failed?.status === "failed" && failed.last_seq === leaf_seq && previousOf(failed) === id) {
    const first_seq = Math.min(failed.first_seq ?? leaf_seq, leaf_seq);
    return { suffix, follows: { first_seq, last_seq: leaf_seq, repeats: true }, lastEvent, isOlder: false };
  }
  return { suffix, follows: { first_seq: firstSeq, last_seq: run.last_seq }, lastEvent, isOlder };
}

function previousOf({ asked }: RunRow): string | null {
  return asked.response?.previous_response_id ?? null;
}

/** Runs a turn behind a response, or behind it in a copy of its conversation, where something else has followed it. */
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
      // Another was faster.
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
    // Nobody was told of the copy.
    await context.bus.ask(copy, "erase", {}).catch(() => {});
    throw error;
  }
}
