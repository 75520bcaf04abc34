import type { CommandStatus } from "../../bus/protocol/commands.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import { requestMs, type Scope, type TenantStore, type WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";
import { type Gone, type Owner, othersThan, ownerIsGone } from "./hosts.ts";

// Background commands of shell tools. The host that runs a command holds its output; the row names the host, and remains for an hour
// after the end.

const commandTable = table(
  "shell_commands",
  {
    command_id: text,
    /** The workspace whose tools may see the command. */
    scope: text,
    /** The host that runs it. */
    owner: text,
    /** Full id of the thread whose deletion deletes the row; empty without one. */
    thread_id: text,
    manifest: text,
    tool: text,
    argv: json<readonly string[]>(),
    status: oneOf<CommandStatus>("running", "exited", "killed", "timed_out", "output_exceeded", "failed", "lost"),
    exit_code: nullable(integer),
    started_at: integer,
    ended_at: nullable(integer),
  },
  ({ text: tool }) => ({
    ...{ command_id: "row", scope: "tenant", owner: "h:1", thread_id: "t1", manifest: "m", tool, argv: [tool] },
    ...({ status: "exited", exit_code: 0, started_at: 5, ended_at: 6 } as const),
  }),
);

/** A background command. */
export type ShellCommandRow = RowIn<typeof commandTable>;

/** Max commands that run at once: of one workspace, and of one tenant. The bound of a host is in its memory. */
export const ofScopeMax = 4;
export const ofTenantMax = 8;
/** Time for which a finished command is kept. */
export const keptMs = 3_600_000;
/** Max finished commands of a workspace that are kept. */
export const keptOfScopeMax = 16;

const insertCommand = insertInto(commandTable);
const selectCommand = tenantSql(
  "shell_command",
  `SELECT ${commandTable.columns} FROM shell_commands WHERE tenant_id = :tenant AND command_id = ?`,
);
const countRunning = tenantSql(
  "shell_commands_running",
  `SELECT COUNT(*) AS of_tenant, SUM(CASE WHEN scope = ? THEN 1 ELSE 0 END) AS of_scope FROM shell_commands INDEXED BY shell_commands_running
   WHERE tenant_id = :tenant AND status = 'running'`,
);
const endCommand = tenantSql(
  "shell_command_end",
  `UPDATE shell_commands SET status = ?, exit_code = ?, ended_at = ?
   WHERE tenant_id = :tenant AND command_id = ? AND status = 'running'`,
);
const deleteCommand = tenantSql(
  "shell_command_delete",
  "DELETE FROM shell_commands WHERE tenant_id = :tenant AND command_id = ? AND status <> 'running'",
);
const deleteOfThread = tenantSql(
  "shell_commands_of_thread_delete",
  "DELETE FROM shell_commands INDEXED BY shell_commands_of_thread WHERE tenant_id = :tenant AND thread_id = ?",
);
const selectOwners = tenantSql(
  "shell_command_owners",
  `SELECT DISTINCT owner FROM shell_commands INDEXED BY shell_commands_of_thread
   WHERE tenant_id = :tenant AND thread_id = ? AND status = 'running'`,
);
const loseOfGone = systemSql(
  "shell_commands_lose",
  `UPDATE shell_commands INDEXED BY shell_commands_running SET status = 'lost', ended_at = :now
   WHERE status = 'running' AND ${ownerIsGone("owner")}`,
);
const deleteOld = systemSql(
  "shell_commands_delete_old",
  `DELETE FROM shell_commands WHERE (tenant_id, command_id) IN
     (SELECT tenant_id, command_id FROM shell_commands WHERE ended_at < ? ORDER BY ended_at LIMIT ?)
   RETURNING command_id`,
);

/** Inserts a running command. Refuses with conflict if it exists. */
export function startCommandOp(
  store: TenantStore,
  row: Omit<ShellCommandRow, "status" | "exit_code" | "ended_at">,
): WriteOp {
  return insertCommand(store, { ...row, status: "running", exit_code: null, ended_at: null });
}

/** Returns a command of the tenant. */
export async function shellCommand(store: TenantStore, commandId: string): Promise<ShellCommandRow | undefined> {
  const [row] = await store.read(selectCommand, commandId);
  return row && commandTable.decode(row);
}

/** Returns how many commands of the tenant run, and how many of one workspace. */
export async function runningCommands(
  store: TenantStore,
  scope: string,
): Promise<{ readonly ofTenant: number; readonly ofScope: number }> {
  const [row] = await store.read(countRunning, scope);
  return { ofTenant: Number(row?.of_tenant ?? 0), ofScope: Number(row?.of_scope ?? 0) };
}

/** Records how a command has ended. No effect on one that has ended already. */
export function endCommandOp(
  store: TenantStore,
  commandId: string,
  status: Exclude<CommandStatus, "running">,
  exitCode: number | null,
  endedAt: number,
): WriteOp {
  return store.op(endCommand, [status, exitCode, endedAt, commandId]);
}

/** Marks a command as lost whose host does not know it. No effect on one that has ended. */
export function loseCommandOp(store: TenantStore, commandId: string, endedAt: number): WriteOp {
  return endCommandOp(store, commandId, "lost", null, endedAt);
}

/** Deletes a finished command. */
export function deleteCommandOp(store: TenantStore, commandId: string): WriteOp {
  return store.op(deleteCommand, [commandId]);
}

/** Deletes the commands of a thread. */
export function deleteCommandsOp(store: TenantStore, threadId: string): WriteOp {
  return store.op(deleteOfThread, [threadId]);
}

/** Returns the hosts that run commands of a thread. */
export async function commandOwners(store: TenantStore, threadId: string): Promise<readonly Owner[]> {
  return (await store.read(selectOwners, threadId)).map(({ owner }) => owner as Owner);
}

/** Marks the commands of hosts that are gone as lost. A worker has none of its own. */
export async function loseCommands(store: Scope, gone: Gone): Promise<void> {
  if ("worker" in gone) return;
  await store.write([store.op(loseOfGone, [...othersThan(gone.hostsBut)])], requestMs);
}

/** Deletes up to `limit` commands whose time has passed. Returns their number. */
export async function deleteOldCommands(store: Scope, now: number, limit: number): Promise<number> {
  const [deleted] = await store.write([store.op(deleteOld, [now - keptMs, limit])], requestMs);
  return deleted?.length ?? 0;
}
