import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, type RowIn, table, text } from "../store/table.ts";

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
const putPin = tenantSql(
  "mcp_pin_put",
  `INSERT INTO mcp_pins (tenant_id, manifest, server, tool, digest, pinned_at, pinned_by)
   VALUES (:tenant, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, manifest, server, tool)
   DO UPDATE SET digest = excluded.digest, pinned_at = excluded.pinned_at, pinned_by = excluded.pinned_by`,
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

/** Pins a tool and replaces an earlier pin. */
export function putMcpPinOp(store: TenantStore, pin: McpPin): WriteOp {
  return store.op(putPin, paramsOf(pin));
}

/** Pins a tool unless it has a pin. */
export function firstMcpPinOp(store: TenantStore, pin: McpPin): WriteOp {
  return store.op(firstPin, paramsOf(pin));
}

function paramsOf({ manifest, server, tool, digest, pinned_at, pinned_by }: McpPin) {
  return [manifest, server, tool, digest, pinned_at, pinned_by];
}
