import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, type RowIn, selectOne, table, text, upsertInto } from "../store/table.ts";

// The last sign-in of each person and workflow (decision 246). Stored work of a principal is compared with what these entries grant later.

const grantTable = table(
  "sign_in_grants",
  {
    sub: text,
    /** The entries of the settings that admitted the principal. */
    entries: json<readonly string[]>(),
    scopes: json<readonly string[]>(),
    at: integer,
  },
  ({ text: secret }) => ({ sub: "row", entries: [secret], scopes: [secret], at: 1 }),
);

/** A stored sign-in. */
export type SignInGrantRow = RowIn<typeof grantTable>;

const changesMax = 1_000;

const selectSince = systemSql(
  "sign_in_grants_since",
  `SELECT tenant_id, ${grantTable.columns} FROM sign_in_grants WHERE (at, tenant_id, sub) > (?, ?, ?)
   ORDER BY at, tenant_id, sub LIMIT ${changesMax}`,
);
const deleteOld = systemSql(
  "sign_in_grants_delete",
  `DELETE FROM sign_in_grants WHERE (tenant_id, sub) IN
     (SELECT tenant_id, sub FROM sign_in_grants WHERE at <= ? ORDER BY at LIMIT ?)
   RETURNING sub`,
);

const putGrant = upsertInto(grantTable, ["sub"]);
const touch = tenantSql(
  "sign_in_grant_touch",
  "UPDATE sign_in_grants SET at = :now WHERE tenant_id = :tenant AND sub = ?",
);

/** Returns the last sign-in of a principal. */
export const signInGrantOf = selectOne(grantTable, ["sub"]);

/** Stores the last sign-in of a principal, with the time of the store. */
export function putSignInGrantOps(store: TenantStore, row: Omit<SignInGrantRow, "at">): WriteOp[] {
  return [putGrant(store, { ...row, at: 0 }), store.op(touch, [row.sub])];
}

/** Returns the sign-ins of all tenants after a time. */
export async function signInGrantsSince(
  store: Scope,
  after: number,
): Promise<(SignInGrantRow & { readonly tenant_id: string })[]> {
  const found: (SignInGrantRow & { readonly tenant_id: string })[] = [];
  let last: readonly [number, string, string] = [after, "", ""];
  while (true) {
    const page = (await store.read(selectSince, ...last)).map(({ tenant_id, ...row }) => {
      return { ...grantTable.decode(row), tenant_id: tenant_id as string };
    });
    found.push(...page);
    const end = page.at(-1);
    if (end === undefined || page.length < changesMax) return found;
    last = [end.at, end.tenant_id, end.sub];
  }
}

/** Deletes up to `limit` sign-ins at or before a time. Returns their number. */
export async function deleteOldSignInGrants(store: Scope, before: number, limit: number): Promise<number> {
  const [rows = []] = await store.write([store.op(deleteOld, [before, limit])]);
  return rows.length;
}
