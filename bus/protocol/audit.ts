/** Messages to the sealer of one tenant's audit rows. */
export interface AuditMessages {
  /** Seals the rows that have no seal yet. */
  seal: { body: Record<string, never> };
  /** Compares one page of the audit rows with their seals. Refuses with invalid_cursor. */
  verify: { body: VerifyAudit; reply: AuditPage };
}

/** Which page to compare. */
export interface VerifyAudit {
  /** `next` of the page before; null for the first. */
  readonly from: string | null;
  /** A head that was noted earlier; null for none. */
  readonly head: { readonly seq: number; readonly hash: string } | null;
}

/** The end of a tenant's chain. */
export interface AuditHead {
  /** Sequence number of the last sealed row; 0 before the first seal. */
  readonly seq: number;
  readonly hash: string;
  /** Id of the key that signed it. */
  readonly key_id: string;
  readonly sealed_at: number;
}

/** What one page of a verification found. */
export interface AuditPage {
  /** True if this page has no fault. */
  readonly ok: boolean;
  /** The first and the last sequence number that were compared; `to_seq` is less than `from_seq` if there were none. */
  readonly from_seq: number;
  readonly to_seq: number;
  /** Position of the next page; null after the last one. */
  readonly next: string | null;
  readonly head: AuditHead;
  /** The first row whose fields or place do not fit its hash; null for none. */
  readonly first_changed: { readonly seq: number; readonly id: string } | null;
  /** Sequence numbers of rows that are gone, at most 100 in a page. */
  readonly missing: readonly number[];
  /** Rows that retention may have deleted, and did. */
  readonly expired: number;
  /** Rows whose payload was erased. */
  readonly erased: number;
  /** Faults of the chain itself, as sentences. */
  readonly faults: readonly string[];
  /** Rows that wait for their seal; null before the last page. */
  readonly unsealed: number | null;
  /** Rows that have no seal and wait for none, so svc has not written them; null before the last page. */
  readonly foreign: number | null;
}
