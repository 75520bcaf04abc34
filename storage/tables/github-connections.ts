import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";

// The code-host accounts that people of a tenant have connected. Their tokens are encrypted.

const connections = table(
  "github_connections",
  {
    github_user_id: integer,
    github_login: text,
    status: oneOf("active", "revoked"),
    /** Encrypted JSON of the tokens. */
    tokens: text,
    /** Raised by each change. */
    version: integer,
    /** Until then one process refreshes the tokens. */
    claimed_until: integer,
    created_at: integer,
    updated_at: integer,
    refresh_expires_at: nullable(integer),
  },
  ({ text: words }) => ({
    ...({ github_user_id: 7, github_login: words, status: "active", tokens: words, version: 1 } as const),
    ...{ claimed_until: 0, created_at: 5, updated_at: 5, refresh_expires_at: null },
  }),
);

/** A connection to the code host. */
export type ConnectionRow = RowIn<typeof connections>;

const { columns } = connections;
const insertOne = insertInto(connections);
const replaceOne = tenantSql(
  "github_connection_replace",
  `UPDATE github_connections SET github_login = ?, status = 'active', tokens = ?, version = version + 1, claimed_until = 0,
     updated_at = ?, refresh_expires_at = ?
   WHERE tenant_id = :tenant AND github_user_id = ?`,
);
const selectOne = tenantSql(
  "github_connection",
  `SELECT ${columns} FROM github_connections WHERE tenant_id = :tenant AND github_user_id = ?`,
);
const selectAll = tenantSql(
  "github_connections",
  `SELECT ${columns} FROM github_connections WHERE tenant_id = :tenant AND github_user_id > ? ORDER BY github_user_id LIMIT ?`,
);
const claimOne = tenantSql(
  "github_connection_claim",
  `UPDATE github_connections SET claimed_until = ?, version = version + 1
   WHERE tenant_id = :tenant AND github_user_id = ? AND version = ? AND claimed_until < ?`,
);
const refreshOne = tenantSql(
  "github_connection_refresh",
  `UPDATE github_connections SET tokens = ?, refresh_expires_at = ?, updated_at = ?, claimed_until = 0, version = version + 1
   WHERE tenant_id = :tenant AND github_user_id = ? AND version = ?`,
);
const revokeOne = tenantSql(
  "github_connection_revoke",
  `UPDATE github_connections SET status = 'revoked', tokens = '', claimed_until = 0, updated_at = ?, version = version + 1
   WHERE tenant_id = :tenant AND github_user_id = ? AND version = ?`,
);
const deleteOne = tenantSql(
  "github_connection_delete",
  "DELETE FROM github_connections WHERE tenant_id = :tenant AND github_user_id = ?",
);

/** A connection as a sign-in makes it. */
export type NewConnection = Pick<
  ConnectionRow,
  "github_user_id" | "github_login" | "tokens" | "updated_at" | "refresh_expires_at"
>;

/** Stores the connection of an account. Refuses with conflict if there is one. */
export function insertConnectionOp(store: TenantStore, made: NewConnection): WriteOp {
  const row = { ...made, status: "active", version: 1, claimed_until: 0, created_at: made.updated_at } as const;
  return insertOne(store, row);
}

/** Replaces the tokens of an account. Refuses with conflict if there is no connection. */
export function replaceConnectionOp(
  store: TenantStore,
  { github_user_id, github_login, tokens, updated_at, refresh_expires_at }: NewConnection,
): WriteOp {
  return store.op(replaceOne, [github_login, tokens, updated_at, refresh_expires_at, github_user_id], 1);
}

/** Returns the connection of an account. */
export async function connectionOf(store: TenantStore, userId: number): Promise<ConnectionRow | undefined> {
  const [row] = await store.read(selectOne, userId);
  return row && connections.decode(row);
}

/** Returns at most `limit` connections of the tenant, after the account `after`. */
export async function connectionsOf(
  store: TenantStore,
  after: number,
  limit: number,
): Promise<readonly ConnectionRow[]> {
  return (await store.read(selectAll, after, limit)).map((row) => connections.decode(row));
}

/** Claims the refresh of tokens until a time. Refuses with conflict if another process has it. */
export function claimConnectionOp(store: TenantStore, row: ConnectionRow, until: number, now: number): WriteOp {
  return store.op(claimOne, [until, row.github_user_id, row.version, now], 1);
}

/** Stores refreshed tokens. Refuses with conflict if the connection has changed since `version`. */
export function refreshConnectionOp(
  store: TenantStore,
  { github_user_id, version }: Pick<ConnectionRow, "github_user_id" | "version">,
  tokens: string,
  refreshExpiresAt: number | null,
  now: number,
): WriteOp {
  return store.op(refreshOne, [tokens, refreshExpiresAt, now, github_user_id, version], 1);
}

/** Marks a connection that the code host refuses; its tokens are deleted. No effect if it has changed since `version`. */
export function revokeConnectionOp(
  store: TenantStore,
  { github_user_id, version }: Pick<ConnectionRow, "github_user_id" | "version">,
  now: number,
): WriteOp {
  return store.op(revokeOne, [now, github_user_id, version]);
}

/** Deletes the connection of an account. */
export function deleteConnectionOp(store: TenantStore, userId: number): WriteOp {
  return store.op(deleteOne, [userId]);
}
