import { type Dispatcher, errors, Pool } from "undici";
import type { Env } from "../../../bus/env.ts";
import { ChunkError, ChunkReader, errorText, readWhole } from "./chunk-reader.ts";
import {
  type ModelCall,
  type ModelEvents,
  ModelFailure,
  type ModelProvider,
  type ModelReply,
  type ModelRequest,
} from "./provider.ts";

/** A hosted provider behind its OpenAI-compatible endpoint. */
export interface HttpProviderConfig {
  readonly name: string;
  /** Up to and without /chat/completions. */
  readonly baseUrl: string;
  /** Sent with every call; the credential is among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The longest silence that is borne: before the first byte and between two. */
  readonly timeoutMs: number;
  /** What this provider calls the bound on output tokens. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
}

const connectTimeoutMs = 10_000;
/** Much longer than undici's 4 s: a new TLS connection costs a turn several round trips. */
const keepAliveMs = 60_000;
/** Of an error body, and of an answer that was not streamed. */
const errorBytesMax = 64 * 1024;
const wholeBytesMax = 16 * 1024 * 1024;

/** Calls a provider over HTTP. Bodies are read with undici's dispatch: its streams and fetch cost three times as much. */
export function httpProvider(config: HttpProviderConfig, env: Env): ModelProvider {
  const url = new URL(`${config.baseUrl.replace(/\/+$/, "")}/chat/completions`);
  const pool = new Pool(url.origin, {
    connect: { timeout: connectTimeoutMs },
    headersTimeout: config.timeoutMs,
    bodyTimeout: config.timeoutMs,
    keepAliveTimeout: keepAliveMs,
    allowH2: false,
  });
  const path = url.pathname + url.search;
  const headers = Object.entries({ ...config.headers, "content-type": "application/json", accept: "text/event-stream" }).flat();

  return {
    name: config.name,
    start(request, events) {
      const call = new HttpCall(events, env);
      pool.dispatch({ path, method: "POST", headers, body: requestBody(config, request) }, call);
      return call;
    },
  };
}

function requestBody(config: HttpProviderConfig, request: ModelRequest): string {
  let body = `{"model":${JSON.stringify(request.route.model)},"messages":${request.messages},"stream":true,"stream_options":{"include_usage":true},"temperature":${request.temperature}`;
  if (request.max_tokens !== null) body += `,"${config.maxTokensField}":${request.max_tokens}`;
  if (request.tools !== null) body += `,"tools":${request.tools}`;
  return `${body}}`;
}

/** One call, as undici drives it. */
class HttpCall implements ModelCall, Dispatcher.DispatchHandler {
  readonly reply: Promise<ModelReply>;
  readonly #events: ModelEvents;
  readonly #env: Env;
  readonly #reader: ChunkReader;
  #resolve!: (reply: ModelReply) => void;
  #reject!: (failure: ModelFailure) => void;
  #controller: Dispatcher.DispatchController | null = null;
  #aborted = false;
  #paused = false;
  #status = 0;
  #retryAfterMs: number | null = null;
  /** Collects a body that is not an event stream. */
  #whole: Buffer[] | null = null;
  #wholeBytes = 0;

  constructor(events: ModelEvents, env: Env) {
    this.#events = events;
    this.#env = env;
    this.#reader = new ChunkReader(events);
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  abort(): void {
    this.#aborted = true;
    this.#controller?.abort(new Error("aborted"));
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

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#aborted) controller.abort(new Error("aborted"));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    // 1xx answers come before the real one.
    if (statusCode < 200) return;
    this.#status = statusCode;
    this.#retryAfterMs = retryAfterMs(headers, this.#env.now());
    const type = String(headers["content-type"] ?? "");
    if (statusCode !== 200 || !type.includes("text/event-stream")) this.#whole = [];
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#whole === null) {
      try {
        this.#reader.push(chunk);
      } catch (error) {
        controller.abort(error as Error);
      }
      return;
    }
    this.#wholeBytes += chunk.length;
    const max = this.#status === 200 ? wholeBytesMax : errorBytesMax;
    if (this.#wholeBytes <= max) this.#whole.push(Buffer.from(chunk));
    else if (this.#status === 200) controller.abort(new ChunkError("the answer is too long"));
  }

  onResponseEnd(): void {
    try {
      if (this.#status !== 200) this.#reject(this.#refused());
      else if (this.#whole === null) this.#resolve(this.#reader.end());
      else this.#resolve(readWhole(Buffer.concat(this.#whole).toString("utf8"), this.#events));
    } catch (error) {
      this.#reject(this.#broken(error));
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(this.#broken(error));
  }

  /** The provider answered with an error status. */
  #refused(): ModelFailure {
    const body = Buffer.concat(this.#whole ?? []).toString("utf8");
    let words = "";
    try {
      const parsed = JSON.parse(body) as { error?: unknown };
      words = `: ${errorText(parsed.error)}`;
    } catch {
      // An error page says nothing that a person at the other end could use.
    }
    return new ModelFailure(`status ${this.#status}${words}`, {
      status: this.#status,
      retryable: isRetryableStatus(this.#status),
      retryAfterMs: this.#retryAfterMs,
    });
  }

  /** The connection or the protocol broke. */
  #broken(error: unknown): ModelFailure {
    const timedOut = error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError;
    const message = error instanceof Error ? error.message : String(error);
    return new ModelFailure(message, {
      status: this.#status,
      // A read that timed out is not made again: the provider may still be working on it.
      retryable: !this.#aborted && !timedOut,
      partial: this.#reader.text,
      timedOut,
      cause: error,
    });
  }
}

function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** Retry-After in either of its forms (RFC 9110, 10.2.3), and the finer one that OpenAI sends. */
function retryAfterMs(headers: Record<string, string | string[] | undefined>, now: number): number | null {
  const fine = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (Number.isFinite(fine) && fine >= 0) return fine;
  const value = headers["retry-after"];
  if (typeof value !== "string") return null;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
