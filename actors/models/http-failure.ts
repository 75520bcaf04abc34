import { soundText } from "../../bus/sound-text.ts";
import { type EgressFailure, egressFailure } from "../../governance/egress/failure.ts";
import { ChunkError, MalformedAnswer, refusalText, SilentAnswer } from "./chunk.ts";
import { isFiltered } from "./content-filter.ts";
import { isImageRefusal } from "./image-refusal.ts";
import { isOverflow } from "./overflow.ts";
import { ModelFailure } from "./provider.ts";

// Describes failed calls: without credentials for the operator's log, and also without addresses for users.

/** Max characters of a provider's text. */
const wordsMax = 500;
/** Characters of it that are searched for addresses. A word cut at the end may be an address, so it is dropped. */
const searchedMax = 8 * wordsMax;

/** The known part of the response when the call failed. */
export interface AnswerSoFar {
  /** 0 before the response began. */
  readonly status: number;
  readonly retryAfterMs: number | null;
  readonly partial: string;
}

/** Removes private parts from error texts. */
export interface Discretion {
  /** Masks secrets. */
  conceal(words: string): string;
  readonly addresses: RegExp;
}

/** Returns the failure for an error status. */
export function refusedCall(answer: AnswerSoFar, body: string, discretion: Discretion): ModelFailure {
  const { message, publicMessage } = presentable(refusalText(body), discretion);
  const stated = `status ${answer.status}`;
  return new ModelFailure(message === "" ? stated : `${stated}: ${message}`, {
    ...answer,
    publicMessage: publicMessage === "" ? stated : `${stated}: ${publicMessage}`,
    retryable: isRetryableStatus(answer.status),
    overflow: isOverflow(answer.status, body),
    filtered: isFiltered(answer.status, body),
    refusal: body,
    refusesImage: isImageRefusal(answer.status, body),
  });
}

/** Returns the failure for a broken connection or protocol. */
export function brokenCall(
  answer: AnswerSoFar,
  error: unknown,
  timeoutMs: number,
  discretion: Discretion,
): ModelFailure {
  const kind = egressFailure(error);
  const readTimedOut = kind === "silent_head" || kind === "silent_body" || error instanceof SilentAnswer;
  const stated = error instanceof ChunkError ? error.status : 0;
  const { message, publicMessage } = presentable(breakText(error, kind, timeoutMs), discretion);
  return new ModelFailure(message, {
    ...answer,
    publicMessage,
    status: stated || answer.status,
    retryable: stated > 0 ? isRetryableStatus(stated) : !readTimedOut && mayPass(error, kind),
    unsendable: kind === "unsendable",
    timedOut: readTimedOut || kind === "no_connection",
    overflow: error instanceof ChunkError && isOverflow(stated || 400, error.message),
    filtered: error instanceof ChunkError && isFiltered(stated || 400, error.message),
    refusesImage: error instanceof ChunkError && isImageRefusal(stated || 400, error.message),
    cause: error,
  });
}

/**
 * True if a retry may succeed. After a read timeout the provider may still be working, and a response that breaks its protocol
 * would cost the same again.
 */
function mayPass(error: unknown, kind: EgressFailure): boolean {
  return !(error instanceof MalformedAnswer) && !["unsendable", "blocked", "malformed"].includes(kind);
}

function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

function breakText(error: unknown, kind: EgressFailure, timeoutMs: number): string {
  if (error instanceof ChunkError) return error.message;
  if (kind === "blocked") return "egress_blocked: destination not permitted";
  if (kind === "no_connection") return "no connection in time";
  if (kind === "silent_head") return `no answer within ${timeoutMs / 1000} seconds`;
  if (kind === "silent_body") return `the answer fell silent for ${timeoutMs / 1000} seconds`;
  if (kind === "unsendable") return `the request cannot be sent: ${(error as Error).message}`;
  // The system's error text contains hosts and addresses of the operator's network.
  if (kind === "lost") return "the connection was lost";
  if (kind === "malformed") return (error as Error).message;
  const code = codeOf(error);
  return code === "" ? "the connection failed" : `the connection failed (${code})`;
}

function codeOf(error: unknown): string {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
}

function presentable(words: string, { conceal, addresses }: Discretion): { message: string; publicMessage: string } {
  const concealed = conceal(words);
  const whole = concealed.length <= searchedMax;
  const searched = whole ? concealed : concealed.slice(0, concealed.lastIndexOf(" ", searchedMax) + 1);
  const short = (text: string) => soundText(text.slice(0, wordsMax));
  return { message: short(concealed), publicMessage: short(searched.replaceAll(addresses, "[address]")) };
}
