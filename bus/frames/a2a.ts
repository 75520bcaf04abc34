import type { SvcError } from "../errors.ts";
import type { Channel } from "../protocol/channel.ts";
import type { A2aCall, A2aVersion } from "../protocol/run.ts";
import { encodeAnswer } from "../protocol/turn-answer.ts";
import { type A2aTask, artifactUpdate, rpcErrorText, streamEvent, taskUpdate } from "./a2a-objects.ts";
import { errorBody, silent } from "./answer.ts";
import { failureText } from "./native-stream.ts";
import { partingFrames, type RunOutput, type RunResult } from "./output.ts";

// Output of POST /a2a. The status that ends a task comes from the store, so the output of a run ends without it.

/** JSON-RPC code of a failure of the server. */
const internalError = -32603;

/** Output of a run whose caller reads the task at its end. */
export function a2aAnswer(channel: Channel, requestId: string): RunOutput {
  return {
    ...silent,
    finished: () => channel.send(encodeAnswer(200, ""), true),
    failed: (error) => channel.send(encodeAnswer(error.status, errorBody(error, requestId)), true),
  };
}

/**
 * Output of a run, or of a stored one, as a stream of events: the task, then pieces of its artifact. The artifact is the
 * text of the model's last step: the first piece of a step replaces the text of the steps before.
 */
export class A2aStream implements RunOutput {
  readonly #channel: Channel;
  readonly #call: Pick<A2aCall, "version" | "rpc_id">;
  readonly #task: A2aTask;
  readonly #requestId: string;
  /** Text of the current step. */
  #text = "";
  #isParted = true;

  constructor(channel: Channel, call: Pick<A2aCall, "version" | "rpc_id">, task: A2aTask, requestId: string) {
    this.#channel = channel;
    this.#call = call;
    this.#task = task;
    this.#requestId = requestId;
  }

  get writable(): boolean {
    return this.#channel.writable;
  }

  onWritable(work: () => void): void {
    this.#channel.onWritable(work);
  }

  started(): void {
    this.#channel.send(streamEvent(this.#call, taskUpdate(this.#version, this.#task)), false);
  }

  text(delta: string): void {
    const append = !this.#isParted;
    if (!append) this.#text = "";
    this.#isParted = false;
    this.#text += delta;
    this.#channel.send(this.#piece(delta, append, false), false);
  }

  thinking(): void {}

  frame(name: string): void {
    if (partingFrames.has(name)) this.#isParted = true;
  }

  finished({ final }: RunResult): void {
    // Some patterns answer with another text than that of their last step.
    const replaced = final !== null && final !== "" && final !== this.#text;
    const isOpen = this.#text !== "";
    const last = replaced ? this.#piece(final, false, true) : isOpen ? this.#piece("", true, true) : "";
    this.#channel.send(last, true);
  }

  failed(error: SvcError): void {
    const message = failureText(error, this.#requestId);
    this.#channel.send(`data: ${rpcErrorText(this.#call.rpc_id, internalError, message)}\n\n`, true);
  }

  get #version(): A2aVersion {
    return this.#call.version;
  }

  #piece(text: string, append: boolean, isLast: boolean): string {
    return streamEvent(this.#call, artifactUpdate(this.#version, this.#task, text, append, isLast));
  }
}
