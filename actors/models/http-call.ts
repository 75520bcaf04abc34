import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ResponseControl, ResponseHandler } from "../../governance/egress/connection.ts";
import type { ResponseHead } from "../../governance/egress/response-head.ts";
import { retryAfterMs } from "../../governance/egress/retry-after.ts";
import type { AnswerReader } from "./answer-reader.ts";
import { MalformedAnswer, SilentAnswer } from "./chunk.ts";
import { type AnswerSoFar, brokenCall, type Discretion, refusedCall } from "./http-failure.ts";
import { ModelFailure } from "./provider.ts";

/** Of an error body. */
const errorBytesMax = 64 * 1024;
/** How long an answer whose last word has come may take to end, so that its connection can be used again. */
const endMs = 1_000;
/** The longest silence between two pieces of the answer, as a multiple of the longest between two bytes. */
const silencesMax = 5;

const blanks: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n"));
/** What JSON begins with here, and what pages of HTML do, which are no stream either. */
const documentBytes: ReadonlySet<number> = new Set(Buffer.from("{[<"));
/** What a line of an event stream begins with: data, event, id, retry, a comment. */
const lineBytes: ReadonlySet<number> = new Set(Buffer.from("deir:"));

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
  /** How the body is read; `unknown` until its first byte. */
  #form: "unknown" | "stream" | "document" = "unknown";
  /** Whether its type says, or leaves open, that it is an event stream. */
  #isTypedStream = true;
  /** Collects a body that is not an event stream. */
  #whole: Buffer[] | null = null;
  #wholeBytes = 0;
  /** When the answer was last heard, in monotonic milliseconds, and how much of it by then. */
  #heardAt = 0;
  #heardLength = 0;
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
    // A paused call reads nothing, so the pause is no silence of the provider.
    this.#heardAt = this.#context.env.monotonic();
    this.#controller?.resume();
  }

  /** The request cannot be sent. Does nothing when the call is over. */
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
    // No request names Accept-Encoding, so the provider may not encode the answer.
    if (coding !== "identity") this.#break(new MalformedAnswer(`the answer has the content-encoding ${coding}`));
  }

  onResponseData(chunk: Buffer): void {
    if (this.#settled) return;
    if (this.#form === "unknown") this.#sniff(chunk);
    if (this.#whole !== null) this.#collect(this.#whole, chunk);
    else if (this.#form === "stream" && !this.#push(chunk)) return;
    if (!this.#settled) this.#listen();
    // Nearly always the end comes with the last word.
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
    // Everything has been said: how the connection ends does not matter.
    if (this.#reader.isOver) this.#finish();
    else this.#break(error);
  }

  /** An event stream or one JSON document: providers and gateways name either type for either (decision 210), the first byte tells. */
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

  /** False if that has ended the call. */
  #push(chunk: Buffer): boolean {
    try {
      this.#reader.push(chunk);
      return true;
    } catch (error) {
      this.#break(error);
      return false;
    }
  }

  /** Ends a call whose provider keeps the connection open, and says nothing (decision 211). */
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
