import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import { integer, type RowIn, table, text } from "../store/table.ts";
import { writeStored } from "./stored-bytes.ts";

// The tools of MCP servers as they were when a manifest first used them, or when a person approved them (decision 109: pins). A tool
// whose digest has changed is not bound.

const pinTable = table(
  "mcp_pins",
  {
    manifest: text,
    /** The server's name in the manifest. */
    server: text,
    /** The tool's name at the server. */
    tool: text,
    /** SHA-256 of name, description, schemas and annotations, in hexadecimal. */
    digest: text,
    pinned_at: integer,
    /** The subject of who approved it; empty for the first use. */
    pinned_by: text,
  },
  ({ text: tool }) => ({ manifest: "m", server: "row", tool, digest: "d", pinned_at: 5, pinned_by: "" }),
);

/** One approved tool of a server. */
export type McpPin = RowIn<typeof pinTable>;

const selectPins = tenantSql(
  "mcp_pins_of_server",
  `SELECT ${pinTable.columns} FROM mcp_pins WHERE tenant_id = :tenant AND manifest = ? AND server = ?`,
);
const movePin = tenantSql(
  "mcp_pin_move",
  `UPDATE mcp_pins SET digest = ?, pinned_at = ?, pinned_by = ?
   WHERE tenant_id = :tenant AND manifest = ? AND server = ? AND tool = ?`,
);
const firstPin = tenantSql(
  "mcp_pins_insert",
  `INSERT INTO mcp_pins (tenant_id, manifest, server, tool, digest, pinned_at, pinned_by)
   VALUES (:tenant, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
);

/** Returns the pins of a server, at most one for each of its tools. */
export async function mcpPins(store: TenantStore, manifest: string, server: string): Promise<readonly McpPin[]> {
  return (await store.read(selectPins, manifest, server)).map((row) => pinTable.decode(row));
}

/**
 * Pins tools: `first` have no pin, and `changed` have one of another digest. `limit` is the tenant's storage quota. Refuses with
 * storage_quota_exceeded, and with conflict if another writer has pinned one of `first` since.
 */
export async function writeMcpPins(
  store: TenantStore,
  { first, changed }: { readonly first: readonly McpPin[]; readonly changed: readonly McpPin[] },
  limit: number,
): Promise<void> {
  const ops = [
    ...first.map((pin) => store.op(firstPin, paramsOf(pin), 1)),
    ...changed.map((pin) => store.op(movePin, movedParams(pin))),
  ];
  if (ops.length > 0) await writeStored(store, { kind: "mcp_pins", bytes: first.length * pinBytes }, limit, ops);
}

/** Bytes that a pin counts for: those of its row with long names. */
const pinBytes = 300;

function paramsOf({ manifest, server, tool, digest, pinned_at, pinned_by }: McpPin) {
  return [manifest, server, tool, digest, pinned_at, pinned_by];
}

function movedParams({ manifest, server, tool, digest, pinned_at, pinned_by }: McpPin) {
  return [digest, pinned_at, pinned_by, manifest, server, tool];
}
