import type { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import { silent } from "./answer.ts";
import { failureText } from "./native-stream.ts";
import { answering, failedAnswer, failureCode, refusedAnswer } from "./openai-error.ts";
import { type HandedCall, partingFrames, type RunOutput, type RunResult } from "./output.ts";
import {
  callItem,
  endStatus,
  itemId,
  lastItemStatus,
  messageItem,
  type ResponseHead,
  type ResponseState,
  reasoningItem,
  reasoningPart,
  responseObject,
  textPart,
} from "./response-object.ts";

// Output of POST /v1/responses. Each step yields an item for the model's reasoning and one for its text. Tools of the
// manifest run on the server and only separate the steps.

/** Sends a stream event with its type and fields. */
type Tell = (type: string, fields: object) => void;

/** Output of POST /v1/responses without `stream`. */
export function responseAnswer(channel: Channel, head: ResponseHead, requestId: string): RunOutput {
  const items = new OutputItems(head.id, () => {});
  return {
    ...silent,
    text: (delta) => items.add("msg", delta),
    thinking: (delta) => items.add("rs", delta),
    frame: (name) => items.frame(name),
    ...answering(channel, {
      finished(result) {
        if (result.failure !== null) return failedAnswer(result);
        // A copy: a follow-up message can make the run continue after this end.
        return { status: 200, body: JSON.stringify(responseObject(head, endOf(result, items.copy()))) };
      },
      failed: (error) => refusedAnswer(error, requestId),
    }),
  };
}

/**
 * Output of POST /v1/responses with `stream`. `firstNumber` is the sequence number of the first event. Events up to
 * `startingAfter` are omitted, because the client has seen them. Events of one call are sent as one piece. The end of
 * an item repeats its whole text, and separate pieces would use up the credit.
 */
export function responseStream(
  channel: Channel,
  head: ResponseHead,
  requestId: string,
  firstNumber: number,
  startingAfter = -1,
): RunOutput {
  let sequence_number = firstNumber;
  let piece = "";
  const tell: Tell = (type, fields) => {
    if (sequence_number > startingAfter) piece += eventText(type, sequence_number, fields);
    sequence_number++;
  };
  const pass = (last = false): void => {
    const text = piece;
    piece = "";
    if (last || text !== "") channel.send(text, last);
  };
  const items = new OutputItems(head.id, tell);
  const queued: ResponseState = { status: "queued", output: [], stop_reason: null, usage: null, failure: null };
  const begun: ResponseState = { ...queued, status: "in_progress" };
  const isQueued = head.asked.background === true;
  return {
    get writable() {
      return channel.writable;
    },
    onWritable: (work) => channel.onWritable(work),
    started() {
      const response = responseObject(head, isQueued ? queued : begun);
      tell("response.created", { response });
      tell(isQueued ? "response.queued" : "response.in_progress", { response });
      pass();
    },
    text(delta) {
      items.add("msg", delta);
      pass();
    },
    thinking(delta) {
      items.add("rs", delta);
      pass();
    },
    frame(name) {
      // The start of a queued turn.
      if (name === "turn_started") tell("response.in_progress", { response: responseObject(head, begun) });
      else items.frame(name);
      pass();
    },
    finished(result) {
      const state = endOf(result, items);
      const response = responseObject(head, state);
      const ended = state.status === "completed" || state.status === "failed" ? state.status : "incomplete";
      tell(`response.${ended}`, { response });
      pass(true);
    },
    failed(error: SvcError) {
      const { code } = error;
      // A background response continues. Its stream can be reread after any number that was seen, so this event must
      // not take a new number.
      const number = isQueued ? Math.max(0, startingAfter, sequence_number - 1) : sequence_number;
      const message = failureText(error, requestId);
      piece += eventText("error", number, { code, message, param: null });
      pass(true);
    },
  };
}

function eventText(type: string, sequence_number: number, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...fields })}\n\n`;
}

/** Returns the final state of a turn and closes its last item. */
function endOf(result: RunResult, items: OutputItems): ResponseState {
  const { stop_reason, usage, aborted, failure } = result;
  const status = endStatus(stop_reason, failure === null ? (aborted ? "aborted" : null) : "model_failed");
  items.close(lastItemStatus(status, stop_reason));
  for (const call of result.handed) items.call(call);
  return { status, output: items.done, stop_reason, usage, failure, failure_code: failureCode(result) };
}

/** An item to which text is still added. */
interface OpenItem {
  readonly kind: "msg" | "rs";
  readonly id: string;
  text: string;
}

const kinds = {
  msg: { item: messageItem, part: textPart, event: "output_text", more: { logprobs: [] } },
  rs: { item: reasoningItem, part: reasoningPart, event: "reasoning_text", more: {} },
} as const;

/** The items of an output, and the events that announce them. */
class OutputItems {
  /** The closed items. */
  readonly done: object[] = [];
  readonly #responseId: string;
  readonly #tell: Tell;
  #open: OpenItem | null = null;

  constructor(responseId: string, tell: Tell) {
    this.#responseId = responseId;
    this.#tell = tell;
  }

  /** Returns a copy that sends no events. */
  copy(): OutputItems {
    const copy = new OutputItems(this.#responseId, () => {});
    copy.done.push(...this.done);
    copy.#open = this.#open && { ...this.#open };
    return copy;
  }

  /** Adds text or reasoning of the model. */
  add(kind: OpenItem["kind"], delta: string): void {
    const open = this.#open?.kind === kind ? this.#open : this.#begin(kind);
    open.text += delta;
    const { event, more } = kinds[kind];
    this.#tell(`response.${event}.delta`, { ...this.#placeOf(open), delta, ...more });
  }

  /** Ends the current step when tools run, or when the user has sent a message. */
  frame(name: string): void {
    if (partingFrames.has(name)) this.close("completed");
  }

  close(status: "completed" | "incomplete"): void {
    const open = this.#open;
    if (open === null) return;
    this.#open = null;
    const { event, part, item, more } = kinds[open.kind];
    const place = this.#placeOf(open);
    const closed = item(open.id, open.text, status);
    this.#tell(`response.${event}.done`, { ...place, text: open.text, ...more });
    this.#tell("response.content_part.done", { ...place, part: part(open.text) });
    this.#tell("response.output_item.done", { output_index: place.output_index, item: closed });
    this.done.push(closed);
  }

  /** Adds a call that the client executes. It is sent as a whole, because the controls have checked all of it. */
  call(call: HandedCall): void {
    const output_index = this.done.length;
    const item = callItem(itemId("fc", this.#responseId, output_index), call);
    const { id: item_id, name } = item;
    this.#tell("response.output_item.added", { output_index, item: { ...item, arguments: "", status: "in_progress" } });
    this.#tell("response.function_call_arguments.delta", { item_id, output_index, delta: item.arguments });
    this.#tell("response.function_call_arguments.done", { item_id, output_index, name, arguments: item.arguments });
    this.#tell("response.output_item.done", { output_index, item });
    this.done.push(item);
  }

  #begin(kind: OpenItem["kind"]): OpenItem {
    this.close("completed");
    const open: OpenItem = { kind, id: itemId(kind, this.#responseId, this.done.length), text: "" };
    this.#open = open;
    const { part, item } = kinds[kind];
    const place = this.#placeOf(open);
    const added = { ...item(open.id, "", "in_progress"), content: [] };
    this.#tell("response.output_item.added", { output_index: place.output_index, item: added });
    this.#tell("response.content_part.added", { ...place, part: part("") });
    return open;
  }

  #placeOf({ id }: OpenItem) {
    return { item_id: id, output_index: this.done.length, content_index: 0 };
  }
}
