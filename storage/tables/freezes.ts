import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, type RowIn, table, text, upsertInto } from "../store/table.ts";

// The freezes of tenants (decisions 118 and 189). Every process reads all rows into memory, so their number is bounded.

/** The part of a tenant that is frozen; without a field, the whole tenant. */
export interface FreezeSelector {
  readonly manifest?: string;
  readonly tool?: string;
  /** Name of an MCP server. */
  readonly server?: string;
  /** Subject of a caller. */
  readonly principal?: string;
}

/** Max freezes of one tenant. */
export const freezesMax = 100;

const freezeTable = table(
  "freezes",
  { selector: json<FreezeSelector>(), reason: text, created_at: integer, created_by: text },
  ({ text: reason }) => ({ selector: { manifest: "row" }, reason, created_at: 5, created_by: "ann" }),
);

/** A stored freeze. */
export type FreezeRow = RowIn<typeof freezeTable>;

const putFreeze = upsertInto(freezeTable, ["selector"]);
const deleteFreeze = tenantSql(
  "freeze_delete",
  "DELETE FROM freezes WHERE tenant_id = :tenant AND selector = ? RETURNING selector",
);
const selectFreezes = tenantSql(
  "freezes_of_tenant",
  `SELECT ${freezeTable.columns} FROM freezes WHERE tenant_id = :tenant ORDER BY created_at, selector LIMIT ${freezesMax}`,
);
const selectAll = systemSql(
  "freezes_all",
  `SELECT tenant_id, ${freezeTable.columns} FROM freezes ORDER BY tenant_id, selector`,
);

/** Stores a freeze; one with the same selector is replaced. The fields of the selector must be in the order of its type. */
export const putFreezeOp = putFreeze;

/** Deletes the freeze with exactly this selector. Its batch returns a row if there was one. */
export function deleteFreezeOp(store: TenantStore, selector: FreezeSelector): WriteOp {
  return store.op(deleteFreeze, [JSON.stringify(selector)]);
}

/** Returns the freezes of a tenant, the oldest first. */
export async function freezesOf(store: TenantStore): Promise<FreezeRow[]> {
  return (await store.read(selectFreezes)).map((row) => freezeTable.decode(row));
}

/** Returns the freezes of all tenants. */
export async function allFreezes(store: Scope): Promise<(FreezeRow & { readonly tenant_id: string })[]> {
  return (await store.read(selectAll)).map(({ tenant_id, ...row }) => ({
    ...freezeTable.decode(row),
    tenant_id: tenant_id as string,
  }));
}
