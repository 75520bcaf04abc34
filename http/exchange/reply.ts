import type { SvcError } from "../../bus/errors.ts";
import type { EventStream } from "./sse.ts";

/** The answer of a handler; the engine writes it. */
export type Reply =
  | { readonly kind: "json"; readonly status: number; readonly body: string; readonly headers?: Headers }
  | {
      readonly kind: "text";
      readonly status: number;
      readonly contentType: string;
      readonly body: string | Uint8Array;
      readonly headers?: Headers;
    }
  /** An event stream: `open` is called after its head was written, and then owns the stream. */
  | { readonly kind: "stream"; readonly headers?: Headers; readonly open: (stream: EventStream) => void }
  /** A long body, written in pieces at the client's pace. `return` is called on a disconnect, even while a piece is being made. */
  | {
      readonly kind: "pieces";
      readonly contentType: string;
      readonly pieces: Pieces;
      readonly headers?: Headers;
    };

/** The pieces of a long body, in order. */
export type Pieces = Required<Pick<AsyncIterator<string | Uint8Array, void, undefined>, "next" | "return">>;

/** Headers of an answer, by lower-case name. */
export type Headers = Readonly<Record<string, string>>;

/** Matches control characters, which could start another header, and characters beyond Latin-1, which Node refuses. */
const unsendable = /[^\x20-\x7e\x80-\xff]/;

/** True if every engine sends this header value unchanged. */
export function isSendable(value: string): boolean {
  return !unsendable.test(value);
}

/** True if all header values of a reply can be sent. */
export function hasSendableHead(reply: Reply): boolean {
  const { headers } = reply;
  if ("contentType" in reply && !isSendable(reply.contentType)) return false;
  if (headers) for (const name of Object.keys(headers)) if (!isSendable(headers[name] as string)) return false;
  return true;
}

/** Returns a reply with a value as JSON. */
export function json(value: unknown, status = 200, headers?: Headers): Reply {
  return { kind: "json", status, body: JSON.stringify(value), ...(headers && { headers }) };
}

/** An answer in JSON. */
export type JsonReply = Extract<Reply, { readonly kind: "json" }>;

/** Returns a reply with a text that is JSON already. */
export function jsonText(body: string, status = 200, headers?: Headers): JsonReply {
  return { kind: "json", status, body, ...(headers && { headers }) };
}

/** Returns a reply of any other content type. */
export function text(body: string | Uint8Array, contentType: string, headers?: Headers, status = 200): Reply {
  return { kind: "text", status, contentType, body, ...(headers && { headers }) };
}

/**
 * Returns the answer to a refusal. Bodies printed in the specification keep exactly those keys. All other refusals carry their code under
 * both `error` and `detail`, some with a sentence under `message`.
 */
export function refusal(error: SvcError, requestId: string): JsonReply {
  return jsonText(JSON.stringify(refusalBody(error, requestId)), error.status, refusalHeaders(error));
}

/** The header of every 401 (RFC 9110, section 15.5.2). */
export const bearerChallenge: Headers = { "www-authenticate": 'Bearer realm="svc"' };

/** Returns the headers that a refusal has in every form: when to retry, and how to authenticate. */
export function refusalHeaders({ status, details: { retryAfterSeconds, reason } }: SvcError): Headers {
  // RFC 6750, section 3.1: an answer to a request without credentials names no error.
  const isRefused = typeof reason === "string" && reason.startsWith("invalid_");
  return {
    ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
    ...(status === 401 && bearerChallenge),
    ...(status === 401 && isRefused && { "www-authenticate": 'Bearer realm="svc", error="invalid_token"' }),
  };
}

/** Returns the sentence for people, if the error has one. */
function spoken({ sentence }: SvcError): object {
  return sentence === null ? {} : { message: sentence };
}

function refusalBody(error: SvcError, requestId: string): unknown {
  const { detail, reason } = error.details;
  switch (error.code) {
    case "payload_too_large":
    case "rate_limited":
      return { error: error.code };
    case "unauthorized":
      return { error: error.code, reason, ...spoken(error) };
    case "missing_scopes":
      return { detail };
    case "invalid_bundle":
    case "publish_blocked":
      // The faults of the files, or the reasons, are fields next to the code.
      return { error: error.code, detail: error.code, ...spoken(error), ...(detail as object) };
    case "workspace_changed":
      // The details of the file are fields next to the code.
      return { error: error.code, detail: error.code, ...(detail as object) };
    case "internal_error":
      return { error: error.code, detail: `internal error (request ${requestId})` };
    default:
      return { error: error.message, detail: detail ?? error.message, ...spoken(error) };
  }
}
