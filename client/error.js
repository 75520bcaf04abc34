/** @import { ErrorCode } from "./types.ts" */

/**
 * A refusal of the server, a failed turn, or a lost connection.
 */
export class SvcError extends Error {
  /**
   * @param {object} fields
   * @param {ErrorCode | "connection_lost" | (string & {})} fields.code
   * @param {string} [fields.message]
   * @param {number} [fields.status]
   * @param {unknown} [fields.detail]
   * @param {string} [fields.subject]
   * @param {string | null} [fields.requestId]
   * @param {number | null} [fields.retryAfterMs]
   * @param {unknown} [fields.cause]
   */
  constructor({
    code,
    message = code,
    status = 0,
    detail,
    subject = "",
    requestId = null,
    retryAfterMs = null,
    cause,
  }) {
    super(message, cause === undefined ? {} : { cause });
    this.name = "SvcError";
    /** What went wrong, for programs. */
    this.code = code;
    /** The status of the answer; 0 without one. */
    this.status = status;
    /** Details: for `invalid_request` the invalid fields. */
    this.detail = detail;
    /** What the code is about, such as the name of an unknown manifest. */
    this.subject = subject;
    /** The id of the request in the server's log. */
    this.requestId = requestId;
    /** The server's own wish for the time of the next try. */
    this.retryAfterMs = retryAfterMs;
  }

  /** True if the same request may succeed later. */
  get isTemporary() {
    return temporary.has(this.code);
  }
}

const temporary = new Set([
  ...["connection_lost", "rate_limited", "mailbox_full", "actor_lost", "deadline_exceeded", "shutting_down"],
  ...["storage_unavailable", "dependency_unavailable", "issuer_unavailable", "bad_gateway"],
]);

/**
 * Reads the answer of a refused request, in any of the server's forms or a proxy's.
 * @param {Response} response
 * @returns {Promise<SvcError>}
 */
export async function refusalOf(response) {
  const { status, headers } = response;
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const known = {
    status,
    requestId: headers.get("x-request-id"),
    retryAfterMs: Number.isFinite(seconds) ? seconds * 1000 : null,
  };
  /** @type {any} */
  const body = await response.json().catch(() => null);
  const { error, detail, message, reason } = body ?? {};
  if (typeof error === "string") {
    const text = message ?? (typeof detail === "string" ? detail : error);
    return new SvcError({ ...known, ...codeOf(error), message: text, detail: detail ?? reason });
  }
  if (typeof error === "object" && error !== null) {
    const code = codeOf(String(error.code ?? error.type));
    return new SvcError({ ...known, ...code, message: String(error.message), detail: error });
  }
  if (typeof detail === "string" && status === 403)
    return new SvcError({ ...known, code: "missing_scopes", message: detail, detail });
  // A proxy in front of a server that restarts.
  return new SvcError({
    ...known,
    code: status >= 502 && status <= 504 ? "bad_gateway" : "invalid_answer",
    message: `The server answered ${status}.`,
  });
}

/**
 * Splits a code from its subject.
 * @param {string} text
 */
function codeOf(text) {
  const [code = "", ...subject] = text.split(":");
  return { code, subject: subject.join(":") };
}
