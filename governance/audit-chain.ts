import type { TenantStore } from "../storage/store/store.ts";
import type { WholeAuditRow } from "../storage/tables/audit.ts";
import {
  type ChainBase,
  type HeadRow,
  headOfChain,
  moveBaseOps,
  type SealEntry,
  type SealRow,
  sealOps,
  sealRowsMax,
  sealsFrom,
  unsealedRows,
} from "../storage/tables/audit-seals.ts";
import type { AuditKey, AuditKeys } from "./audit-keys.ts";

// The audit chain of one tenant (decisions 117 and 190). Each sealed row has a sequence number and the hash
// HMAC(key, hash of the row before + canonical row). The canonical row has the keyed digest of the payload instead of the payload.
// A payload that was erased therefore still fits its hash.

/** The payload of an audit row whose words were erased. */
export const erasedPayload = '{"erased":true}';

/** Seals the first unsealed rows of a tenant. Returns their number. Refuses with conflict if another process has just sealed. */
export async function sealNext(store: TenantStore, keys: AuditKeys, now: number): Promise<number> {
  const unsealed = await unsealedRows(store, sealRowsMax);
  if (unsealed.length === 0) return 0;
  const head = (await headOfChain(store)) ?? null;
  const key = keys.signing;
  let [seq, hash] = head === null ? [0, ""] : [head.seq, head.hash];
  const first_seq = seq + 1;
  const entries = unsealed.map(({ ts, id, row }): SealEntry => {
    seq++;
    // The place of a row that was deleted before its seal is sealed too, so that the loss shows.
    const digest = row === null ? "" : payloadDigest(key, row.payload);
    hash = linkHash(key, hash, store.tenantId, seq, row ?? lost(ts, id), digest);
    return [ts, id, digest, hash];
  });
  const last_ts = Math.max(...entries.map(([ts]) => ts));
  const seal: SealRow = { first_seq, last_seq: seq, last_ts, sealed_at: now, key_id: key.id, entries };
  await store.write(sealOps(store, head, seal, firstBase(key, store.tenantId)));
  return entries.length;
}

/** Returns the keyed digest of a payload. */
export function payloadDigest(key: AuditKey, payload: string): string {
  return key.hash(`payload\n${payload}`);
}

/** Returns the hash of the chain after a row. */
export function linkHash(
  key: AuditKey,
  before: string,
  tenantId: string,
  seq: number,
  row: Omit<WholeAuditRow, "payload">,
  digest: string,
): string {
  const { ts, id, event_type, manifest_id, principal_subj, status, tool, latency_ms } = row;
  const words = [tenantId, seq, ts, id, event_type, manifest_id, principal_subj, status, tool, latency_ms, digest];
  return key.hash(`link\n${before}\n${JSON.stringify(words)}`);
}

/** Returns the fields of a row that no longer exists. */
export function lost(ts: number, id: string): Omit<WholeAuditRow, "payload"> {
  return { ts, id, event_type: "", manifest_id: "", principal_subj: "", status: "", tool: null, latency_ms: null };
}

/** Returns the keyed hash of a chain's base. */
export function baseMac(key: AuditKey, tenantId: string, base: Omit<ChainBase, "base_key_id" | "base_mac">): string {
  return key.hash(`base\n${JSON.stringify([tenantId, base.base_seq, base.base_hash, base.pruned_before])}`);
}

function firstBase(key: AuditKey, tenantId: string): ChainBase {
  return signedBase(key, tenantId, { base_seq: 0, base_hash: "", pruned_before: 0 });
}

function signedBase(key: AuditKey, tenantId: string, base: Omit<ChainBase, "base_key_id" | "base_mac">): ChainBase {
  return { ...base, base_key_id: key.id, base_mac: baseMac(key, tenantId, base) };
}

/** Notes in the chain that rows older than a time may be gone. Call it before they are deleted. */
export async function allowPruning(store: TenantStore, keys: AuditKeys, until: number): Promise<void> {
  const head = await headOfChain(store);
  if (head === undefined || head.pruned_before >= until) return;
  const { base_seq, base_hash } = head;
  const base = signedBase(keys.signing, store.tenantId, { base_seq, base_hash, pruned_before: until });
  await store.write(moveBaseOps(store, head, base));
}

/** Deletes the oldest seals whose rows are all older than a time, and keeps the hash of the last one as the base of the chain. */
export async function pruneSeals(store: TenantStore, keys: AuditKeys, until: number): Promise<void> {
  for (;;) {
    const head = await headOfChain(store);
    if (head === undefined) return;
    const seals = await sealsFrom(store, head.base_seq + 1, sealsAtOnce);
    const kept = seals.findIndex(({ last_ts }) => last_ts >= until);
    const gone = kept === -1 ? seals : seals.slice(0, kept);
    const last = gone.at(-1);
    if (last === undefined) return;
    await store.write(moveBaseOps(store, head, baseAfter(last, head, store.tenantId, keys)));
    if (gone.length < sealsAtOnce) return;
  }
}

/** Seals that are deleted in one batch. */
const sealsAtOnce = 50;

function baseAfter({ last_seq, entries }: SealRow, head: HeadRow, tenantId: string, keys: AuditKeys): ChainBase {
  const base_hash = entries.at(-1)?.[3] ?? "";
  return signedBase(keys.signing, tenantId, { base_seq: last_seq, base_hash, pruned_before: head.pruned_before });
}
