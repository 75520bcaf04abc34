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
 * side said nothing for too long, and may still be at work. `malformed`: what it said is no answer of HTTP.
 */
export type EgressFailure =
  | "blocked"
  | "unsendable"
  | "no_connection"
  | "silent_head"
  | "silent_body"
  | "lost"
  | "malformed"
  | "other";

/** A failure that the egress has found itself; what the system says of a connection is passed on as it was said. */
export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly failure: Exclude<EgressFailure, "blocked" | "other">;

  constructor(failure: EgressError["failure"], message: string) {
    super(message);
    this.failure = failure;
  }
}

/** The kind of an error that an egress has given to a handler. */
export function egressFailure(error: unknown): EgressFailure {
  if (error instanceof EgressBlocked) return "blocked";
  if (error instanceof EgressError) return error.failure;
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : "";
  return code === "ECONNRESET" || code === "EPIPE" ? "lost" : "other";
}
