import { errors } from "undici";
import type { SecretMask } from "../../../governance/secrets.ts";
import { ChunkError, refusalText } from "./chunk.ts";
import { ModelFailure } from "./provider.ts";

// A call that went wrong, in words that may be shown to whoever talks to the agent: no address, no credential.

/** Of what a provider says. Characters. */
const wordsMax = 500;

/** What was known of the answer when the call failed. */
export interface AnswerSoFar {
  /** 0 before the answer began. */
  readonly status: number;
  readonly retryAfterMs: number | null;
  readonly partial: string;
}

/** The provider answered with an error status. */
export function refusedCall(answer: AnswerSoFar, body: string, mask: SecretMask): ModelFailure {
  const words = presentable(refusalText(body), mask);
  return new ModelFailure(words === "" ? `status ${answer.status}` : `status ${answer.status}: ${words}`, {
    ...answer,
    retryable: isRetryableStatus(answer.status),
  });
}

/** The connection or the protocol broke. */
export function brokenCall(answer: AnswerSoFar, error: unknown, timeoutMs: number, mask: SecretMask): ModelFailure {
  const readTimedOut = error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError;
  const stated = error instanceof ChunkError ? error.status : 0;
  return new ModelFailure(presentable(breakText(error, timeoutMs), mask), {
    ...answer,
    status: stated || answer.status,
    // A read that timed out is not made again: the provider may still be working on it.
    retryable:
      stated > 0 ? isRetryableStatus(stated) : !readTimedOut && !(error instanceof errors.InvalidArgumentError),
    timedOut: readTimedOut || error instanceof errors.ConnectTimeoutError,
    cause: error,
  });
}

/** Retry-After in either of its forms (RFC 9110, 10.2.3), and the finer one that OpenAI sends. Milliseconds, null without one. */
export function retryAfterMs(headers: Record<string, string | string[] | undefined>, now: number): number | null {
  const fine = decimal(headers["retry-after-ms"]);
  if (fine !== null) return fine;
  const value = headers["retry-after"];
  const seconds = decimal(value);
  if (seconds !== null) return seconds * 1000;
  // Date.parse takes almost anything for a date.
  if (typeof value !== "string" || !/^[A-Z][a-z]+, .+ GMT$/.test(value)) return null;
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

function decimal(value: string | string[] | undefined): number | null {
  return typeof value === "string" && /^\d+(\.\d+)?$/.test(value) ? Number(value) : null;
}

function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

function breakText(error: unknown, timeoutMs: number): string {
  if (error instanceof ChunkError) return error.message;
  if (error instanceof errors.ConnectTimeoutError) return "no connection in time";
  if (error instanceof errors.HeadersTimeoutError) return `no answer within ${timeoutMs / 1000} seconds`;
  if (error instanceof errors.BodyTimeoutError) return `the answer fell silent for ${timeoutMs / 1000} seconds`;
  if (error instanceof errors.InvalidArgumentError) return `the request cannot be sent: ${error.message}`;
  const code = codeOf(error);
  // The text of such an error names hosts and addresses of the operator's network.
  if (code === "ECONNRESET" || code === "EPIPE" || code === "UND_ERR_SOCKET") return "the connection was lost";
  return code === "" ? "the connection failed" : `the connection failed (${code})`;
}

function codeOf(error: unknown): string {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
}

function presentable(words: string, mask: SecretMask): string {
  return mask.text(words).slice(0, wordsMax).toWellFormed();
}
