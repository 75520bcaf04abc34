import type { TenantStore } from "../../storage/store/store.ts";
import { type LogEvent, readEvents } from "../../storage/tables/events.ts";
import type { StoredResponse } from "./stored-response.ts";

// The input items of a response, read from the beginning of its run's log up to the first event of the model.

/** An item of an input, in the form of the Responses protocol. */
export interface InputItem {
  readonly id: string;
  readonly [field: string]: unknown;
}

/**
 * Returns the items of a response's own input in the order in which they were sent. Commands are expanded, and dropped parts are missing.
 */
export async function readInput(store: TenantStore, found: StoredResponse): Promise<InputItem[]> {
  const { id, thread, run, firstSeq } = found;
  const items: InputItem[] = [];
  const add = (prefix: string, fields: object): void => {
    items.push({ id: `${prefix}_${id.slice("resp_".length)}_in${items.length}`, ...fields });
  };
  const end = run.last_seq === null ? thread.next_seq : run.last_seq + 1;
  // For a repeated request, the messages are in the log of the failed turn.
  for (let seq = run.asked.again_of ?? firstSeq; seq < end; ) {
    const page = await readEvents(store, thread.thread_key, seq, end);
    for (const event of page) {
      if (isOfModel(event)) return items;
      addItems(add, event);
    }
    const last = page.at(-1);
    if (!last) break;
    seq = last.seq + 1;
  }
  return items;
}

function isOfModel({ kind, role, extra }: LogEvent): boolean {
  return kind === "message" && role === "assistant" && extra?.metadata?.source !== "client";
}

function addItems(add: (prefix: string, fields: object) => void, { kind, role, content, extra }: LogEvent): void {
  const metadata = extra?.metadata ?? {};
  if (kind === "tool_result" && metadata.source === "client")
    add("fco", {
      ...{ type: "function_call_output", status: "completed" },
      ...{ call_id: extra?.tool_call_id, output: content },
    });
  // Steering messages to the run are no part of the request.
  if (kind !== "message" || metadata.type !== undefined) return;
  const parts = [...(content === "" ? [] : [textPart(role, content)]), ...imagesOf(metadata.attachments)];
  if (parts.length > 0) add("msg", { type: "message", role, status: "completed", content: parts });
  for (const call of extra?.tool_calls ?? [])
    add("fc", {
      ...{ type: "function_call", status: "completed", call_id: call.id, name: call.name },
      arguments: JSON.stringify(call.args),
    });
}

function textPart(role: string | null, text: string): object {
  return role === "assistant"
    ? { type: "output_text", text, annotations: [], logprobs: [] }
    : { type: "input_text", text };
}

const fileScheme = "svc-file://";

function imagesOf(attachments: unknown): object[] {
  const images = (attachments ?? []) as readonly { readonly url: string; readonly detail?: string }[];
  return images.map(({ url, detail = "auto" }) => {
    const isFile = url.startsWith(fileScheme);
    const file_id = isFile ? url.slice(fileScheme.length) : null;
    return { type: "input_image", detail, file_id, image_url: isFile ? null : url };
  });
}
