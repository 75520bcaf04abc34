import { SvcError } from "../../bus/errors.ts";
import {
  callItem,
  endStatus,
  itemId,
  lastItemStatus,
  messageItem,
  placeOfResponse,
  type ResponseHead,
  reasoningItem,
  responseObject,
} from "../../bus/frames/response-object.ts";
import type { ResponseAsked } from "../../bus/protocol/run.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type LogEvent, readEvents, runOfEvent } from "../../storage/tables/events.ts";
import { type RunRow, runByKey, runKey } from "../../storage/tables/runs.ts";
import { type ThreadRow, threadBySuffix } from "../../storage/tables/threads.ts";
import { failureOf, HandedCalls, saidIn } from "../streams/logged-output.ts";

// A response has no row of its own: it is a run and the run's events in its conversation's log. Its id contains their position.

/** A stored response. */
export interface StoredResponse {
  readonly id: string;
  readonly thread: ThreadRow;
  readonly run: RunRow;
  readonly firstSeq: number;
  readonly asked: ResponseAsked;
}

/** Returns the tenant's response with this id. Refuses with unknown_response. */
export async function findResponse(store: TenantStore, id: string): Promise<StoredResponse> {
  const place = placeOfResponse(id);
  const thread = place === null ? undefined : await threadBySuffix(store, place.suffix);
  if (place === null || !thread || place.firstSeq >= thread.next_seq) throw new SvcError("unknown_response");
  const number = await runOfEvent(store, thread.thread_key, place.firstSeq);
  const run = number === null ? undefined : await runByKey(store, runKey(thread.thread_key, number));
  // An event inside a run is not the start of a response.
  if (!run?.asked.response || run.first_seq !== place.firstSeq) throw new SvcError("unknown_response");
  return { id, thread, run, firstSeq: place.firstSeq, asked: run.asked.response };
}

/** Returns the fields of a response that are known from its start. */
export function headOf({ id, run, asked }: Pick<StoredResponse, "id" | "run" | "asked">): ResponseHead {
  const { options = null } = run.asked;
  return { id, created_at: Math.floor(run.started_at / 1000), model: run.manifest, asked, options };
}

/** Returns the response object, as far as it is in the log. */
export async function readResponse(store: TenantStore, { id, thread, run, firstSeq, asked }: StoredResponse) {
  const head = headOf({ id, run, asked });
  const { stop_reason = null, usage = null } = run.result ?? {};
  const error = run.result?.error ?? (run.status === "completed" ? null : run.status);
  const goesOn = run.status === "accepted" ? "queued" : "in_progress";
  const status = run.ended_at === null ? goesOn : endStatus(stop_reason, error);
  const end = run.last_seq === null ? thread.next_seq : run.last_seq + 1;
  const output: object[] = [];
  const handed = new HandedCalls();
  for (let seq = firstSeq; seq < end; ) {
    const page = await readEvents(store, thread.thread_key, seq, end);
    const last = page.at(-1);
    if (!last) break;
    for (const event of page) {
      handed.take(event);
      addItems(output, event, id, (isLast) =>
        isLast && run.ended_at !== null ? lastItemStatus(status, stop_reason) : "completed",
      );
    }
    seq = last.seq + 1;
  }
  // A run with another end has handed no calls to the client.
  if (status === "completed" && stop_reason === "tool_use")
    for (const call of handed.calls) output.push(callItem(itemId("fc", id, output.length), call));
  const failure_code = run.result?.failure_code ?? "model_unavailable";
  return responseObject(head, { status, output, stop_reason, usage, failure: failureOf(run), failure_code });
}

/** Adds the reasoning and text of an event as output items. */
function addItems(
  output: object[],
  { kind, role, content, extra }: LogEvent,
  id: string,
  statusOf: (isLast: boolean) => "completed" | "incomplete",
): void {
  const said = saidIn({ kind, role, content, extra });
  if (said === null) return;
  for (const [at, { kind: of, text }] of said.entries()) {
    const status = at === said.length - 1 ? statusOf(extra?.tool_calls === undefined) : "completed";
    if (of === "thought") output.push(reasoningItem(itemId("rs", id, output.length), text, status));
    else output.push(messageItem(itemId("msg", id, output.length), text, status));
  }
}
