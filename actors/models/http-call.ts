import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ResponseControl, ResponseHandler } from "../../governance/egress/connection.ts";
import type { ResponseHead } from "../../governance/egress/response-head.ts";
import { retryAfterMs } from "../../governance/egress/retry-after.ts";
import type { AnswerReader } from "./answer-reader.ts";
import { MalformedAnswer, SilentAnswer } from "./chunk.ts";
import { type AnswerSoFar, brokenCall, type Discretion, refusedCall } from "./http-failure.ts";
import { ModelFailure } from "./provider.ts";

/** Max bytes of an error body. */
const errorBytesMax = 64 * 1024;
/** Max wait for the end of a complete response, so that its connection can be reused. */
const endMs = 1_000;
/** Max silence between two pieces of content, as a multiple of the max silence between two bytes. */
const silencesMax = 5;

const blanks: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n"));
/** First bytes of JSON documents and HTML pages, which are not streams. */
const documentBytes: ReadonlySet<number> = new Set(Buffer.from("{[<"));
/** First bytes of event stream lines: data, event, id, retry, comment. */
const lineBytes: ReadonlySet<number> = new Set(Buffer.from("deir:"));

interface CallContext<Reply> {
  readonly env: Env;
  readonly discretion: Discretion;
  readonly timeoutMs: number;
  /** Parses the response. */
  readonly reader: AnswerReader<Reply>;
  /** Called after a refusal; returns true if the request was changed and sent again within the same call. */
  sendDifferently(failure: ModelFailure): boolean;
  /** Called after a response; returns true if the reply continues in the response to another request that was sent. */
  sendOn(reply: Reply): boolean;
}

/** One HTTP call; the egress calls its handlers. */
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
  /** The form of the body; `unknown` until its first byte. */
  #form: "unknown" | "stream" | "document" = "unknown";
  /** True if the content type is an event stream or missing. */
  #isTypedStream = true;
  /** Collects a body that is not an event stream. */
  #whole: Buffer[] | null = null;
  #wholeBytes = 0;
  /** Monotonic time of the last content, and its length then. */
  #heardAt = 0;
  #heardLength = 0;
  /** Runs while the end of a complete response is awaited. */
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
    // A paused call reads nothing, so the pause does not count as silence.
    this.#heardAt = this.#context.env.monotonic();
    this.#controller?.resume();
  }

  /** Fails a call whose request cannot be sent. No effect after the end of the call. */
  giveUp(error: unknown): void {
    if (error instanceof SvcError) this.#fail(error);
    else this.#break(error);
  }

  onRequestStart(controller: ResponseControl): void {
    this.#controller = controller;
    this.#heardAt = this.#context.env.monotonic();
    if (this.#settled) controller.abort();
    else if (this.#paused) controller.pause();
  }

  onResponseStart(head: ResponseHead): void {
    this.#status = head.status;
    this.#retryAfterMs = retryAfterMs(head, this.#context.env.now());
    this.#form = "unknown";
    const type = head.header("content-type") ?? "";
    this.#isTypedStream = type === "" || type.includes("text/event-stream");
    if (head.status !== 200 || !this.#reader.isStreamed) this.#beginDocument();
    if (head.status !== 200) return;
    const coding = head.header("content-encoding")?.toLowerCase() ?? "identity";
    // Requests have no Accept-Encoding, so the response must not be encoded.
    if (coding !== "identity") this.#break(new MalformedAnswer(`the answer has the content-encoding ${coding}`));
  }

  onResponseData(chunk: Buffer): void {
    if (this.#settled) return;
    if (this.#form === "unknown") this.#sniff(chunk);
    if (this.#whole !== null) this.#collect(this.#whole, chunk);
    else if (this.#form === "stream" && !this.#push(chunk)) return;
    if (!this.#settled) this.#listen();
    // Nearly always the stream ends together with the end marker.
    if (this.#whole === null && this.#reader.isOver) this.#context.env.soon(() => this.#awaitEnd());
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
    // The reply is complete, so an error of the connection does not matter.
    if (this.#reader.isOver) this.#finish();
    else this.#break(error);
  }

  /**
   * Decides between event stream and JSON document by the first byte, because providers and gateways send wrong content types
   * (decision 210: odd streams are accepted).
   */
  #sniff(chunk: Buffer): void {
    const first = chunk.find((byte) => !blanks.has(byte));
    if (first === undefined) return;
    const isStream = this.#isTypedStream ? !documentBytes.has(first) : lineBytes.has(first);
    if (isStream) this.#form = "stream";
    else this.#beginDocument();
  }

  #beginDocument(): void {
    this.#form = "document";
    this.#whole = [];
  }

  /** Returns false if the call has failed. */
  #push(chunk: Buffer): boolean {
    try {
      this.#reader.push(chunk);
      return true;
    } catch (error) {
      this.#break(error);
      return false;
    }
  }

  /**
   * Fails a call whose provider keeps the connection open without content (decision 211: content must arrive within five times
   * the timeout).
   */
  #listen(): void {
    const { env, timeoutMs } = this.#context;
    const now = env.monotonic();
    const { heardLength } = this.#reader;
    if (heardLength !== this.#heardLength) {
      this.#heardLength = heardLength;
      this.#heardAt = now;
    } else if (now - this.#heardAt > silencesMax * timeoutMs) {
      const seconds = (silencesMax * timeoutMs) / 1000;
      this.#break(new SilentAnswer(`the answer has said nothing for ${seconds} seconds`));
    }
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
      this.#break(new MalformedAnswer("the answer is too long"));
    else if (this.#status !== 200 && this.#wholeBytes > errorBytesMax) this.#fail(this.#refusal());
    else whole.push(Buffer.from(chunk));
  }

  /** Returns the failure for an error status, and resets the state for another request. */
  #refusal(): ModelFailure {
    const body = Buffer.concat(this.#whole ?? []).toString("utf8");
    this.#whole = null;
    this.#wholeBytes = 0;
    return refusedCall(this.#soFar(), body, this.#context.discretion);
  }

  #break(error: unknown): void {
    this.#fail(brokenCall(this.#soFar(), error, this.#context.timeoutMs, this.#context.discretion));
  }

  /** Fails the call. The connection is closed unless the response was read completely. */
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
