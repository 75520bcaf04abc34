/** The policy refuses the destination. The message does not reveal the address or its network. */
export class EgressBlocked extends Error {
  readonly code = "egress_blocked";

  constructor() {
    super("destination not permitted");
    this.name = "EgressBlocked";
  }
}

/**
 * Why a request has no response. `unsendable`: the request is invalid and was not sent. `silent_head`, `silent_body`: a timeout;
 * the server may still be working. `malformed`: the response is not valid HTTP.
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

/** A failure that the egress itself detected. Errors of the system are passed on unchanged. */
export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly failure: Exclude<EgressFailure, "blocked" | "other">;

  constructor(failure: EgressError["failure"], message: string) {
    super(message);
    this.failure = failure;
  }
}

/** Classifies an error that an egress passed to a handler. */
export function egressFailure(error: unknown): EgressFailure {
  if (error instanceof EgressBlocked) return "blocked";
  if (error instanceof EgressError) return error.failure;
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : "";
  return code === "ECONNRESET" || code === "EPIPE" ? "lost" : "other";
}
