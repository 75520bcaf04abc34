import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ResponseControl, ResponseHandler } from "../../governance/egress/connection.ts";
import type { ResponseHead } from "../../governance/egress/response-head.ts";
import type { AnswerReader } from "./answer-reader.ts";
import { ChunkError } from "./chunk.ts";
import { type AnswerSoFar, brokenCall, type Discretion, refusedCall, retryAfterMs } from "./http-failure.ts";
import { ModelFailure } from "./provider.ts";

/** Of an error body. */
const errorBytesMax = 64 * 1024;
/** How long an answer whose last word has come may take to end, so that its connection can be used again. */
const endMs = 1_000;

interface CallContext<Reply> {
  readonly env: Env;
  readonly discretion: Discretion;
  readonly timeoutMs: number;
  /** Reads the answer. */
  readonly reader: AnswerReader<Reply>;
  /** Asked when the provider refuses: true when the request was changed and sent again, as the same call. */
  sendDifferently(failure: ModelFailure): boolean;
  /** Asked when an answer is read: true when it goes on in the answer to another request, which was sent. */
  sendOn(reply: Reply): boolean;
}

/** One call over HTTP, as the egress drives it. */
export class HttpCall<Reply> implements ResponseHandler {
  readonly reply: Promise<Reply>;
  readonly #context: CallContext<Reply>;
  readonly #reader: AnswerReader<Reply>;
  #resolve!: (reply: Reply) => void;
  #reject!: (failure: Error) => void;
  #controller: ResponseControl | null = null;
  #settled = false;
  #paused = false;
  #status = 0;
  #retryAfterMs: number | null = null;
  /** Collects a body that is not an event stream. */
  #whole: Buffer[] | null = null;
  #wholeBytes = 0;
  /** Runs while the end of an answer is waited for that has said its last word. */
  #ending: Timer | null = null;

  constructor(context: CallContext<Reply>) {
    this.#context = context;
    this.#reader = context.reader;
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  abort(): void {
    this.#fail(new ModelFailure("aborted", this.#soFar()));
  }

  pause(): void {
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#controller?.resume();
  }

  /** The request cannot be sent. Does nothing when the call is over. */
  giveUp(error: unknown): void {
    if (error instanceof SvcError) this.#fail(error);
    else this.#break(error);
  }

  onRequestStart(controller: ResponseControl): void {
    this.#controller = controller;
    if (this.#settled) controller.abort();
    else if (this.#paused) controller.pause();
  }

  onResponseStart(head: ResponseHead): void {
    this.#status = head.status;
    this.#retryAfterMs = retryAfterMs(head, this.#context.env.now());
    const type = head.header("content-type") ?? "";
    const isDocument = !this.#reader.isStreamed || (type !== "" && !type.includes("text/event-stream"));
    if (head.status !== 200 || isDocument) this.#whole = [];
  }

  onResponseData(chunk: Buffer): void {
    if (this.#settled) return;
    if (this.#whole !== null) {
      this.#collect(this.#whole, chunk);
      return;
    }
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.#break(error);
      return;
    }
    // Nearly always the end comes with the last word.
    if (this.#reader.isOver) this.#context.env.soon(() => this.#awaitEnd());
  }

  onResponseEnd(): void {
    if (this.#settled) return;
    if (this.#status !== 200) {
      const failure = this.#refusal();
      if (!this.#context.sendDifferently(failure)) this.#fail(failure);
      return;
    }
    this.#finish();
  }

  onResponseError(error: Error): void {
    if (this.#settled) return;
    // Everything has been said: how the connection ends does not matter.
    if (this.#reader.isOver) this.#finish();
    else this.#break(error);
  }

  #awaitEnd(): void {
    if (this.#settled || !this.#reader.isOver) return;
    this.#ending ??= this.#context.env.timer(endMs, () => {
      this.#controller?.abort();
      this.#finish();
    });
  }

  #finish(): void {
    this.#stopEnding();
    try {
      const reply =
        this.#whole === null ? this.#reader.end() : this.#reader.whole(Buffer.concat(this.#whole).toString("utf8"));
      this.#whole = null;
      this.#wholeBytes = 0;
      if (this.#context.sendOn(reply)) return;
      this.#settled = true;
      this.#resolve(reply);
    } catch (error) {
      this.#break(error);
    }
  }

  #stopEnding(): void {
    this.#ending?.cancel();
    this.#ending = null;
  }

  #collect(whole: Buffer[], chunk: Buffer): void {
    this.#wholeBytes += chunk.length;
    if (this.#status === 200 && this.#wholeBytes > this.#reader.documentBytesMax)
      this.#break(new ChunkError("the answer is too long"));
    else if (this.#status !== 200 && this.#wholeBytes > errorBytesMax) this.#fail(this.#refusal());
    else whole.push(Buffer.from(chunk));
  }

  /** The provider answered with an error status. Makes room for the answer to another request. */
  #refusal(): ModelFailure {
    const body = Buffer.concat(this.#whole ?? []).toString("utf8");
    this.#whole = null;
    this.#wholeBytes = 0;
    return refusedCall(this.#soFar(), body, this.#context.discretion);
  }

  #break(error: unknown): void {
    this.#fail(brokenCall(this.#soFar(), error, this.#context.timeoutMs, this.#context.discretion));
  }

  /** Ends the call; the connection is closed unless the answer was read to its end. */
  #fail(failure: Error): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#stopEnding();
    this.#reject(failure);
    this.#controller?.abort();
  }

  #soFar(): AnswerSoFar {
    return { status: this.#status, retryAfterMs: this.#retryAfterMs, partial: this.#reader.text };
  }
}
