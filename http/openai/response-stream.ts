import { SvcError } from "../../bus/errors.ts";
import { responseStream } from "../../bus/frames/responses.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { HttpContext } from "../context.ts";
import type { Reply } from "../exchange/reply.ts";
import { channelOf, type EventStream } from "../exchange/sse.ts";
import { failureOf } from "../streams/logged-output.ts";
import { RunFollower } from "../streams/run-follower.ts";
import { findResponse, headOf, type StoredResponse } from "./stored-response.ts";

// The stream of a response that is read later. Its events are made from the log alone, one model step at a time, so that every reader gets
// the same event numbers. A client that lost its connection continues after the last event that it saw.

/** Returns the stream of a stored response after the event with this number. Refuses with unknown_response. */
export async function openResponseStream(
  context: HttpContext,
  tenantId: string,
  id: string,
  startingAfter: number,
  requestId: string,
): Promise<Reply & { kind: "stream" }> {
  const store = context.store.tenant(tenantId);
  const found = await findResponse(store, id);
  return { kind: "stream", open: (stream) => tellResponse(context, store, found, startingAfter, requestId, stream) };
}

/** Sends the events of one response to one client. */
function tellResponse(
  context: HttpContext,
  store: TenantStore,
  found: StoredResponse,
  startingAfter: number,
  requestId: string,
  stream: EventStream,
): void {
  const follower = new RunFollower(context, {
    store,
    suffix: found.thread.suffix,
    firstSeq: found.firstSeq,
    find: async () => {
      const now = await findResponse(store, found.id);
      return { ...now, final: null, failure: failureOf(now.run) ?? "the turn has failed" };
    },
    output: responseStream(channelOf(stream), headOf(found), requestId, 0, startingAfter),
    tellsBegin: true,
  });
  stream.onClose(() => follower.close());
  // The run survives the shutdown, and the client can ask another process for the rest.
  stream.onShutdown(() => follower.fail(new SvcError("shutting_down")));
}
