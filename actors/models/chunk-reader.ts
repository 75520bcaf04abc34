import { CallDrafts } from "./call-drafts.ts";
import {
  type Choice,
  type Chunk,
  ChunkError,
  type ContentPart,
  type Delta,
  errorStatus,
  errorText,
  isFailedReason,
  stopReasonOf,
} from "./chunk.ts";
import { tokenCount, type UsageFigures, usageFigures } from "./chunk-usage.ts";
import { EventStream, parseEvent } from "./event-stream.ts";
import type { ModelEvents, ModelReply } from "./provider.ts";
import { VendorDrafts } from "./vendor-drafts.ts";

/** Parses the streamed response of a chat completion. */
export class ChunkReader extends EventStream {
  readonly #calls = new CallDrafts();
  readonly #vendor = new VendorDrafts();
  readonly #by: string;
  #finish: string | null = null;
  /** True if the model refused, in OpenAI's field for that. */
  #isRefused = false;
  #usage: UsageFigures | null = null;
  #done = false;

  /** `by` names the provider and model to which vendor fields are returned; empty drops the fields. */
  constructor(events: ModelEvents, by = "") {
    super(events);
    this.#by = by;
  }

  protected override take(payload: string): void {
    if (payload.charCodeAt(0) === 0x5b && payload.trimEnd() === "[DONE]") {
      this.#done = true;
      this.over();
      return;
    }
    const chunk = parseEvent(payload) as Chunk | null;
    if (chunk === null) return;
    if (isError(chunk.error)) throw new ChunkError(errorText(chunk.error), errorStatus(chunk.error));
    if (typeof chunk.usage === "object" && chunk.usage !== null) this.#usage = usageFigures(chunk.usage, this.#usage);
    const choice = Array.isArray(chunk.choices) ? (chunk.choices[0] as Choice | null | undefined) : undefined;
    if (typeof choice !== "object" || choice === null) return;
    const delta = choice.delta ?? choice.message;
    if (typeof delta === "object" && delta !== null) this.#takeDelta(choice, delta, payload, Boolean(chunk.usage));
    // Deliver the text of the choice before its error ends the call.
    if (isError(choice.error)) throw new ChunkError(errorText(choice.error), errorStatus(choice.error));
    const { finish_reason } = choice;
    if (typeof finish_reason !== "string" || finish_reason === "") return;
    if (isFailedReason(finish_reason)) throw new ChunkError(`the provider ended the answer with "${finish_reason}"`);
    this.#finish = finish_reason;
  }

  #takeDelta(choice: Choice, delta: Delta, payload: string, hasUsage: boolean): void {
    this.#think(this.#vendor.spokenIn(delta as Readonly<Record<string, unknown>>));
    const kept = this.#vendor.take(delta as Readonly<Record<string, unknown>>);
    if (kept > 0) this.keeps(kept);
    if (typeof delta.content === "string" && delta.content !== "") {
      this.say(delta.content);
      if (this.isLearning() && !hasUsage && kept === 0 && saysOnlyContent(choice))
        this.learn(payload, '"content"', delta.content, false);
    } else if (Array.isArray(delta.content)) {
      for (const part of delta.content) this.#takePart(part);
    }
    if (typeof delta.refusal === "string" && delta.refusal !== "") {
      this.#isRefused = true;
      this.say(delta.refusal);
    }
    if (Array.isArray(delta.tool_calls)) {
      let characters = 0;
      for (const part of delta.tool_calls) characters += this.#calls.take(part);
      this.wroteCalls(characters);
    }
  }

  protected override reply(): ModelReply {
    if (!this.#done && this.#finish === null) throw new ChunkError("the stream ended before the answer did");
    if (this.#finish === null && this.heardLength === 0) throw new ChunkError("the answer is empty");
    const stop_reason = this.#isRefused ? "refusal" : stopReasonOf(this.#finish, this.#calls.size > 0);
    // Calls before a refusal are dropped.
    const tool_calls = stop_reason === "refusal" ? [] : this.#calls.finish();
    const ofCalls = tool_calls.length === 0 ? [] : this.#calls.vendorFields();
    const thoughts = this.#vendor.thoughts(this.#by, this.reasoning, ofCalls, tool_calls.length > 0);
    return {
      text: this.text,
      reasoning: this.reasoning,
      ...(thoughts && { thoughts }),
      tool_calls,
      stop_reason,
      usage: this.#usage && tokenCount(this.#usage),
    };
  }

  #think(words: string): void {
    if (words === "") return;
    this.#vendor.think(this.saidLength, this.thoughtLength);
    this.think(words);
  }

  #takePart(part: ContentPart | null): void {
    if (typeof part?.text === "string" && part.text !== "") this.say(part.text);
    if (typeof part?.thinking === "string" && part.thinking !== "") this.#think(part.thinking);
    if (Array.isArray(part?.thinking)) {
      for (const thought of part.thinking as readonly (ContentPart | null)[])
        if (typeof thought?.text === "string" && thought.text !== "") this.#think(thought.text);
    }
  }
}

function isError(error: unknown): boolean {
  return error !== undefined && error !== null;
}

function saysOnlyContent({ delta, finish_reason }: Choice): boolean {
  if (!delta || finish_reason) return false;
  return !(delta.tool_calls?.length || delta.reasoning_content || delta.reasoning || delta.refusal);
}
