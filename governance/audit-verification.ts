import type { Env } from "../bus/env.ts";
import { breathe } from "../bus/env.ts";
import type { AuditHead, AuditPage } from "../bus/protocol/audit.ts";
import type { TenantStore } from "../storage/store/store.ts";
import type { WholeAuditRow } from "../storage/tables/audit.ts";
import {
  countAuditRows,
  type HeadRow,
  headOfChain,
  rowsOfSeal,
  type SealRow,
  sealsFrom,
} from "../storage/tables/audit-seals.ts";
import { baseMac, erasedPayload, linkHash, lost, payloadDigest } from "./audit-chain.ts";
import type { AuditKeys } from "./audit-keys.ts";

// Compares the stored audit rows of a tenant with its chain, one page of seals at a time.

/** Max seals of one page. A page also ends with the seal that reaches this number of rows. */
const pageSeals = 100;
const pageRows = 500;
/** Max sequence numbers that a page names. */
const namedMax = 100;

/** Returns the head of a tenant's chain. */
export async function chainHead(store: TenantStore): Promise<AuditHead> {
  return asHead(await headOfChain(store));
}

/**
 * Compares one page. `from` is the `next` of the page before; null for the first. `expected` is a head that was noted elsewhere: the
 * chain must still contain it, if the page does.
 */
export async function verifyPage(
  store: TenantStore,
  keys: AuditKeys,
  from: Position | null,
  expected: Pick<AuditHead, "seq" | "hash"> | null,
  env: Env,
): Promise<AuditPage> {
  const head = await headOfChain(store);
  if (head === undefined) return emptyPage(store, expected);
  const start = from?.seq ?? head.base_seq + 1;
  // Retention may have moved the base since the page before.
  const first = Math.max(start, head.base_seq + 1);
  const page = new PageCheck(store, keys, head);
  if (from === null) page.checkBase();
  const isAtBase = first === head.base_seq + 1;
  const seals = await sealsFrom(store, isAtBase ? first : first - 1, isAtBase ? pageSeals : pageSeals + 1);
  const before = isAtBase ? undefined : seals.shift();
  page.begin(first, isAtBase ? head.base_hash : hashAt(before, first - 1));
  let compared = 0;
  for (const seal of seals) {
    if (page.seq - first >= pageRows) break;
    await page.check(seal);
    compared++;
    await breathe(env);
  }
  const present = (from?.present ?? 0) + page.present;
  const isLast = compared === seals.length && seals.length < pageSeals;
  if (isLast) page.checkEnd();
  if (expected !== null) page.checkExpected(expected, first, isLast);
  if (!isLast) return page.result(first, { seq: page.seq + 1, present }, null);
  const { stored, unsealed } = await countAuditRows(store);
  const newest = await headOfChain(store);
  // Sealed since the head was read: the counts include rows that are compared in another page.
  const isMoved = newest !== undefined && newest.seq > head.seq;
  if (isMoved) return page.result(first, { seq: page.seq + 1, present }, null);
  return page.result(first, null, { unsealed, foreign: Math.max(0, stored - unsealed - present) });
}

/** A position between two pages: the next sequence number, and the number of stored rows that the pages before have seen. */
export interface Position {
  readonly seq: number;
  readonly present: number;
}

/** Reads the `next` of a page; null for another text. */
export function readPosition(text: string): Position | null {
  const found = /^(\d{1,15})\.(\d{1,15})$/.exec(text);
  return found === null ? null : { seq: Number(found[1]), present: Number(found[2]) };
}

/** The comparison of one page. */
class PageCheck {
  seq = 0;
  /** Stored rows seen in this page. */
  present = 0;
  readonly #store: TenantStore;
  readonly #keys: AuditKeys;
  readonly #head: HeadRow;
  #hash = "";
  #firstChanged: AuditPage["first_changed"] = null;
  readonly #missing: number[] = [];
  #missed = 0;
  #expired = 0;
  #erased = 0;
  readonly #faults: string[] = [];
  /** Hashes of the checked rows by sequence number, to compare with a noted head. */
  readonly #hashes = new Map<number, string>();

  constructor(store: TenantStore, keys: AuditKeys, head: HeadRow) {
    this.#store = store;
    this.#keys = keys;
    this.#head = head;
  }

  begin(first: number, hash: string | null): void {
    this.seq = first - 1;
    this.#hash = hash ?? "";
    if (hash === null) this.#fault(`the seal of row ${first - 1} is gone`);
    this.#hashes.set(this.seq, this.#hash);
  }

  checkBase(): void {
    const key = this.#keys.get(this.#head.base_key_id);
    if (key === undefined) this.#fault(`the key ${this.#head.base_key_id} of the chain's base is not in SVC_AUDIT_KEY`);
    else if (baseMac(key, this.#store.tenantId, this.#head) !== this.#head.base_mac)
      this.#fault("the base of the chain was changed");
  }

  async check(seal: SealRow): Promise<void> {
    const { first_seq, last_seq, key_id, entries } = seal;
    const key = this.#keys.get(key_id);
    if (first_seq !== this.seq + 1) this.#fault(`the seals of the rows ${this.seq + 1} to ${first_seq - 1} are gone`);
    if (last_seq - first_seq + 1 !== entries.length) this.#fault(`the seal of row ${first_seq} was changed`);
    if (key === undefined)
      this.#fault(`the key ${key_id} of the rows ${first_seq} to ${last_seq} is not in SVC_AUDIT_KEY`);
    const rows = new Map((await rowsOfSeal(this.#store, seal)).map((row) => [`${row.ts} ${row.id}`, row]));
    this.seq = first_seq - 1;
    for (const [ts, id, digest, hash] of entries) {
      this.seq++;
      const row = rows.get(`${ts} ${id}`);
      if (row !== undefined) this.present++;
      if (key !== undefined) this.#checkRow(key, row, { ts, id, digest, hash });
      this.#hash = hash;
      this.#hashes.set(this.seq, hash);
    }
    this.seq = last_seq;
  }

  #checkRow(
    key: NonNullable<ReturnType<AuditKeys["get"]>>,
    row: WholeAuditRow | undefined,
    {
      ts,
      id,
      digest,
      hash,
    }: { readonly ts: number; readonly id: string; readonly digest: string; readonly hash: string },
  ): void {
    const { tenantId } = this.#store;
    if (row === undefined) {
      // Without the row its hash cannot be computed, but the next one depends on it.
      if (ts < this.#head.pruned_before) this.#expired++;
      else this.#miss();
      if (digest === "" && linkHash(key, this.#hash, tenantId, this.seq, lost(ts, id), "") !== hash) this.#changed(id);
      return;
    }
    const isErased = row.payload === erasedPayload && payloadDigest(key, row.payload) !== digest;
    if (isErased) this.#erased++;
    const fits = isErased || payloadDigest(key, row.payload) === digest;
    if (!fits || linkHash(key, this.#hash, tenantId, this.seq, row, digest) !== hash) this.#changed(id);
  }

  checkEnd(): void {
    const { seq, hash } = this.#head;
    // Rows may have been sealed since the head was read.
    if (this.seq < seq) this.#fault(`the chain ends at row ${this.seq}, but its head is row ${seq}`);
    else if ((this.#hashes.get(seq) ?? hash) !== hash) this.#fault("the head does not have the hash of the last row");
  }

  checkExpected({ seq, hash }: Pick<AuditHead, "seq" | "hash">, first: number, isLast: boolean): void {
    const found = this.#hashes.get(seq);
    if (found !== undefined && found !== hash) this.#fault(`row ${seq} does not have the noted hash`);
    if (found === undefined && isLast && seq > this.seq) this.#fault(`row ${seq} of the noted head is gone`);
    if (found === undefined && seq < first - 1 && first === this.#head.base_seq + 1 && seq > 0)
      this.#fault(`row ${seq} of the noted head is older than the stored chain`);
  }

  result(
    first: number,
    next: Position | null,
    counts: { readonly unsealed: number; readonly foreign: number } | null,
  ): AuditPage {
    const isSound = this.#firstChanged === null && this.#missed === 0 && this.#faults.length === 0;
    return {
      ok: isSound && (counts?.foreign ?? 0) === 0,
      from_seq: first,
      to_seq: this.seq,
      next: next === null ? null : `${next.seq}.${next.present}`,
      head: asHead(this.#head),
      first_changed: this.#firstChanged,
      missing: this.#missing,
      expired: this.#expired,
      erased: this.#erased,
      faults: this.#faults,
      unsealed: counts?.unsealed ?? null,
      foreign: counts?.foreign ?? null,
    };
  }

  #changed(id: string): void {
    this.#firstChanged ??= { seq: this.seq, id };
  }

  #miss(): void {
    this.#missed++;
    if (this.#missing.length < namedMax) this.#missing.push(this.seq);
  }

  #fault(sentence: string): void {
    this.#faults.push(sentence);
  }
}

async function emptyPage(store: TenantStore, expected: Pick<AuditHead, "seq" | "hash"> | null): Promise<AuditPage> {
  const { stored, unsealed } = await countAuditRows(store);
  const isGone = expected !== null && expected.seq > 0;
  const foreign = Math.max(0, stored - unsealed);
  return {
    ok: !isGone && foreign === 0,
    ...{ from_seq: 1, to_seq: 0, next: null, head: asHead(undefined) },
    ...{ first_changed: null, missing: [], expired: 0, erased: 0, unsealed, foreign },
    faults: isGone ? ["the chain is gone"] : [],
  };
}

/** Returns the hash of the chain at a row; null if the seal does not end there. */
function hashAt(seal: SealRow | undefined, seq: number): string | null {
  return seal?.last_seq === seq ? (seal.entries.at(-1)?.[3] ?? null) : null;
}

function asHead(head: HeadRow | undefined): AuditHead {
  if (head === undefined) return { seq: 0, hash: "", key_id: "", sealed_at: 0 };
  const { seq, hash, key_id, sealed_at } = head;
  return { seq, hash, key_id, sealed_at };
}
