// Leases of conversations: at most one client drives one at a time, others watch. They are a courtesy between clients and grant nothing.

/** To drive a conversation alone, or to watch it. */
export type LeaseMode = "exclusive" | "shared";

/** What a client shows to drive a conversation: the hash of its token, null when it has shown none. */
export interface LeaseProof {
  readonly token_hash: string | null;
}

/** A hold as a client asks for it. */
export interface TakeLease {
  readonly mode: LeaseMode;
  /** A name that the client chooses for itself. */
  readonly holder_id: string;
  readonly ttlMs: number;
  /** Of the hold that the client has; null for none. */
  readonly token: string | null;
}

/** A hold as it was given. */
export interface TakenLease {
  readonly token: string;
  /** The token was of a hold that goes on. */
  readonly renewed: boolean;
}

/** A hold that is to end. */
export interface EndLease {
  readonly token: string | null;
  /** Null: whoever has the token. */
  readonly holder_id: string | null;
}
