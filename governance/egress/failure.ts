import errors from "undici/lib/core/errors.js";

/** The destination is one that the policy refuses. Says neither the address nor the network that it is on. */
export class EgressBlocked extends Error {
  readonly code = "egress_blocked";

  constructor() {
    super("destination not permitted");
    this.name = "EgressBlocked";
  }
}

/**
 * Why a request has no answer. `unsendable`: it is no valid request, nothing was sent. `silent_head` and `silent_body`: the other
 * side said nothing for too long, and may still be at work.
 */
export type EgressFailure =
  | "blocked"
  | "unsendable"
  | "no_connection"
  | "silent_head"
  | "silent_body"
  | "lost"
  | "other";

/** The kind of an error that an egress has given to a handler. */
export function egressFailure(error: unknown): EgressFailure {
  if (error instanceof EgressBlocked) return "blocked";
  if (error instanceof errors.InvalidArgumentError) return "unsendable";
  if (error instanceof errors.ConnectTimeoutError) return "no_connection";
  if (error instanceof errors.HeadersTimeoutError) return "silent_head";
  if (error instanceof errors.BodyTimeoutError) return "silent_body";
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : "";
  return code === "ECONNRESET" || code === "EPIPE" || code === "UND_ERR_SOCKET" ? "lost" : "other";
}
