import type { SvcError } from "../../bus/errors.ts";
import type { EventStream } from "./sse.ts";

/** What a handler answers; the server writes it. */
export type Reply =
  | { readonly kind: "json"; readonly status: number; readonly body: string; readonly headers?: Headers }
  | {
      readonly kind: "text";
      readonly status: number;
      readonly contentType: string;
      readonly body: string | Uint8Array;
      readonly headers?: Headers;
    }
  /** An event stream: `open` is called when its head was written, and owns it from then on. */
  | { readonly kind: "stream"; readonly headers?: Headers; readonly open: (stream: EventStream) => void }
  /** A long body, written a piece at a time as the client takes it. `return` is called when it goes away, also while a piece is made. */
  | {
      readonly kind: "pieces";
      readonly contentType: string;
      readonly pieces: Pieces;
      readonly headers?: Headers;
    };

/** The pieces of a long body, one after the other. */
export type Pieces = Required<Pick<AsyncIterator<string | Uint8Array, void, undefined>, "next" | "return">>;

/** Headers of an answer, by their lower-case names. */
export type Headers = Readonly<Record<string, string>>;

/** A body of JSON, made here. */
export function json(value: unknown, status = 200, headers?: Headers): Reply {
  return { kind: "json", status, body: JSON.stringify(value), ...(headers && { headers }) };
}

/** A body that is JSON text already. */
export function jsonText(body: string, status = 200, headers?: Headers): Reply {
  return { kind: "json", status, body, ...(headers && { headers }) };
}

/** A body of any other type. */
export function text(body: string | Uint8Array, contentType: string, headers?: Headers, status = 200): Reply {
  return { kind: "text", status, contentType, body, ...(headers && { headers }) };
}

/**
 * The answer to a refusal. Bodies that the specification prints keep their keys to the letter; every other refusal carries its
 * code under both keys (decision 2), some with a sentence under `message`.
 */
export function refusal(error: SvcError, requestId: string): Reply {
  return jsonText(JSON.stringify(refusalBody(error, requestId)), error.status, refusalHeaders(error));
}

/** The header of every 401 (RFC 9110, section 15.5.2). */
export const bearerChallenge: Headers = { "www-authenticate": 'Bearer realm="svc"' };

/** Headers that a refusal has in every form: when to come again, and how to show who is calling. */
export function refusalHeaders({ status, details: { retryAfterSeconds, reason } }: SvcError): Headers {
  // RFC 6750, section 3.1: a caller without credentials is told of no error.
  const isRefused = typeof reason === "string" && reason.startsWith("invalid_");
  return {
    ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
    ...(status === 401 && bearerChallenge),
    ...(status === 401 && isRefused && { "www-authenticate": 'Bearer realm="svc", error="invalid_token"' }),
  };
}

/** The sentence for a person, where there is one. */
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
    case "workspace_changed":
      // The facts of the file stand beside the code.
      return { error: error.code, detail: error.code, ...(detail as object) };
    case "internal_error":
      return { error: error.code, detail: `internal error (request ${requestId})` };
    default:
      return { error: error.message, detail: detail ?? error.message, ...spoken(error) };
  }
}
