import type { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import { doneMark, errorFrame, frame, frameOfJson, textFrames, thinkingFrames, turnStartedFrame } from "./frames.ts";
import type { RunOutput, RunResult } from "./output.ts";

/**
 * Output of POST /chat/stream: the frames of document 1. A class, because each waiting run holds one, and object
 * literals with a getter take ten times the memory.
 */
export class NativeStream implements RunOutput {
  readonly #channel: Channel;
  readonly #requestId: string;

  constructor(channel: Channel, requestId: string) {
    this.#channel = channel;
    this.#requestId = requestId;
  }

  get writable(): boolean {
    return this.#channel.writable;
  }

  onWritable(work: () => void): void {
    this.#channel.onWritable(work);
  }

  started(): void {
    this.#channel.send(turnStartedFrame, false);
  }

  text(delta: string): void {
    this.#channel.send(textFrames(delta), false);
  }

  thinking(delta: string): void {
    this.#channel.send(thinkingFrames(delta), false);
  }

  frame(name: string, data: unknown, id: number): void {
    this.#channel.send(frame(name, data, id), false);
  }

  finished(result: RunResult, id: number): void {
    this.#channel.send(ending(result, id), true);
  }

  failed(error: SvcError): void {
    this.#channel.send(errorFrame(failureText(error, this.#requestId)) + doneMark, true);
  }
}

/** Returns the text for a client about a failure that is not the model's. */
export function failureText(error: SvcError, requestId: string): string {
  return error.code === "internal_error"
    ? `internal error (request ${requestId})`
    : `${error.message} (request ${requestId})`;
}

function ending(result: RunResult, id: number): string {
  let text = "";
  if (result.failure !== null) text += frame("on_error", { message: result.failure }, -1);
  const final = result.final === null ? "null" : `{"role":"assistant","content":${JSON.stringify(result.final)}}`;
  text += frameOfJson("on_chain_end", `{"output":${JSON.stringify(`Run(stop_reason=${result.stop_reason})`)}}`, id);
  const usage = result.usage === null ? "" : `,"usage":${JSON.stringify(result.usage)}`;
  text += frameOfJson(
    "done",
    `{"final":${final},"messages":${result.messagesJson},"stop_reason":"${result.stop_reason}"${usage}}`,
    id,
  );
  return text + doneMark;
}
