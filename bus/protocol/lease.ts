// Leases of threads: at most one client drives a thread, others watch. They coordinate clients and grant no rights.

/** Mode of a hold: drive a thread exclusively, or watch it. */
export type LeaseMode = "exclusive" | "shared";

/** The hash of a client's lease token, null if it sent none. */
export interface LeaseProof {
  readonly token_hash: string | null;
}

/** A client's request for a hold. */
export interface TakeLease {
  readonly mode: LeaseMode;
  /** A name that the client chooses for itself. */
  readonly holder_id: string;
  readonly ttlMs: number;
  /** Token of the client's current hold; null for none. */
  readonly token: string | null;
}

/** A granted hold. */
export interface TakenLease {
  readonly token: string;
  /** True if the token belongs to a hold that was extended. */
  readonly renewed: boolean;
}

/** A request to end a hold. */
export interface EndLease {
  readonly token: string | null;
  /** Null to accept any holder with the token. */
  readonly holder_id: string | null;
}
